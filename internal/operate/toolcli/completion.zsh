#compdef tools
# Completion of "tools" for zsh. Put this into ~/.zshrc, after compinit:
#   source <(tools completion zsh)
_lilac_tools() {
	local -a found
	found=("${(@f)$(${words[1]} __complete "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
	compadd -Q -S '' -- ${found:#*[^=]}
	compadd -Q -- ${found:#(*=|)}
}
compdef _lilac_tools tools
