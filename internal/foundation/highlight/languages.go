package highlight

import "strings"

// language holds the lexical rules that the tokenizer knows.
type language struct {
	lineComments []string
	blockComment [2]string
	// quotes are the delimiters of strings, longer ones first.
	quotes []string
	// words are the keywords, between single spaces.
	words string
	// fold ignores the case of keywords. keys styles a word before a colon. hyphens
	// allows hyphens in words. lifetimes tells 'a from 'a'.
	fold, keys, hyphens, lifetimes bool
}

func (l language) keyword(word string) bool {
	if l.fold {
		word = strings.ToLower(word)
	}
	return strings.Contains(l.words, " "+word+" ")
}

// languageOf returns the rules of a language by the name or file ending that the fence
// of a code block gives.
func languageOf(name string) (language, bool) {
	slashes, block := []string{"//"}, [2]string{"/*", "*/"}
	hash, both := []string{"#"}, []string{`"`, "'"}
	switch name {
	case "go", "golang":
		return language{lineComments: slashes, blockComment: block, quotes: []string{`"`, "'", "`"}, words: goWords}, true
	case "js", "javascript", "jsx", "mjs", "ts", "typescript", "tsx":
		return language{lineComments: slashes, blockComment: block, quotes: []string{`"`, "'", "`"}, words: scriptWords}, true
	case "py", "python", "python3":
		return language{lineComments: hash, quotes: []string{`"""`, "'''", `"`, "'"}, words: pythonWords}, true
	case "sh", "bash", "shell", "zsh", "console", "fish", "dockerfile", "containerfile", "makefile", "make":
		return language{lineComments: hash, quotes: both, words: shellWords, hyphens: true}, true
	case "rs", "rust":
		return language{lineComments: slashes, blockComment: block, quotes: both, words: rustWords, lifetimes: true}, true
	case "c", "h", "cpp", "c++", "cc", "hpp", "cs", "csharp", "java", "kotlin", "kt", "swift", "scala", "dart", "php", "proto", "zig":
		return language{lineComments: slashes, blockComment: block, quotes: []string{`"""`, `"`, "'"}, words: curlyWords}, true
	case "sql", "postgresql", "sqlite", "mysql":
		return language{lineComments: []string{"--"}, blockComment: block, quotes: []string{"'", `"`}, words: sqlWords, fold: true}, true
	case "rb", "ruby", "ex", "elixir", "lua":
		marks := hash
		if name == "lua" {
			marks = []string{"--"}
		}
		return language{lineComments: marks, quotes: both, words: rubyWords}, true
	case "json", "jsonc", "json5":
		return language{lineComments: slashes, quotes: []string{`"`}, words: " true false null "}, true
	case "yaml", "yml", "toml", "ini", "conf", "hcl", "terraform", "tf", "nix":
		return language{lineComments: hash, quotes: both, words: " true false null yes no on off ", keys: true, hyphens: true}, true
	case "css", "scss", "less":
		return language{blockComment: block, quotes: both, words: " important media import from to ", keys: true, hyphens: true}, true
	case "html", "xml", "svg", "vue":
		return language{blockComment: [2]string{"<!--", "-->"}, quotes: both, words: htmlWords, hyphens: true}, true
	}
	return language{}, false
}

const (
	goWords = " break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var " +
		"nil true false iota any bool byte error int int32 int64 uint8 uint64 float64 rune string append cap len make new "
	scriptWords = " async await break case catch class const continue debugger default delete do else export extends finally for from function if implements import in instanceof interface let new of return " +
		"static super switch this throw try type typeof var void while yield null undefined true false string number boolean any "
	pythonWords = " and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield None True False self "
	shellWords  = " if then else elif fi for in do done while until case esac function return export local set unset exit cd echo sudo FROM RUN COPY ADD ENV ARG WORKDIR USER EXPOSE CMD ENTRYPOINT "
	rustWords   = " as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while Some None Ok Err "
	curlyWords  = " abstract as async await bool boolean break byte case catch char class const constexpr continue data default defer delete do double else enum extends extern false final finally float fn for foreach fun func function get guard if implements " +
		"import in include inline int interface internal is let long message namespace new nil null object operator override package private protected public record return sealed set short signed sizeof static string struct super switch template this " +
		"throw throws true try typedef typename union unsigned using val var virtual void volatile when where while yield auto public repeated optional "
	sqlWords = " select from where and or not in is null insert into values update set delete create table index view drop alter add column primary key references foreign unique default join left right inner outer full on group by order " +
		"having limit offset as distinct union all exists between like case when then else end begin commit rollback with returning int integer bigint text varchar boolean timestamp true false if "
	rubyWords = " alias and begin break case class def defmodule defp do else elsif end ensure false for fn function if in local module next nil not or redo rescue repeat require retry return self super then true undef unless until when while yield "
	htmlWords = " html head body div span a p ul ol li table tr td th script style link meta title img input button form label section main nav header footer h1 h2 h3 template "
)
