# Completion of "tools" for bash. Put this into ~/.bashrc:
#   source <(tools completion bash)
_lilac_tools() {
	local line=${COMP_LINE:0:COMP_POINT} word found
	word=${line##*[[:space:]]}
	COMPREPLY=()
	while IFS= read -r found; do
		# bash takes = and : for the ends of words: only what follows is replaced.
		case $word in
		*=*) found=${found#"${word%%=*}="} ;;
		esac
		[[ -n $found ]] && COMPREPLY+=("$found")
	done < <("${COMP_WORDS[0]}" __complete "$line" 2>/dev/null)
	if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
		compopt -o nospace
	fi
}
complete -F _lilac_tools tools
