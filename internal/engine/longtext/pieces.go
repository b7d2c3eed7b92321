package longtext

import "unicode/utf8"

// pieceMax is the maximum length of a piece in bytes of JSON, and how much of each string stays in
// its row: the full-text index reads it.
const pieceMax = 64 << 10

// piece is a part of a string in JSON.
type piece struct {
	from, to int
	id       string
}

// pieces returns the parts of the strings in a JSON text that can be set aside: all but the
// beginning of each. No part begins or ends inside an escape sequence or a character, so the rest
// of the text is valid JSON, too.
func pieces(text []byte) (out []piece) {
	if len(text) <= pieceMax {
		return nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		i++
		begin, from := i, i
		for i < len(text) && text[i] != '"' {
			n := characterLength(text[i:])
			if i+n-from > pieceMax {
				if from > begin {
					out = append(out, newPiece(text, from, i))
				}
				from = i
			}
			i += n
		}
		if from > begin {
			out = append(out, newPiece(text, from, i))
		}
	}
	return out
}

func newPiece(text []byte, from, to int) piece { return piece{from, to, hash(text[from:to])} }

// characterLength returns the length of the first character of a part of a string in JSON, with
// both halves of a surrogate pair. It is at least 1.
func characterLength(s []byte) int {
	if s[0] != '\\' {
		_, n := utf8.DecodeRune(s)
		return n
	}
	n := escapeLength(s)
	if n == len(`\ud800`) && (s[2] == 'd' || s[2] == 'D') && len(s) > n && s[n] == '\\' {
		n += escapeLength(s[n:])
	}
	return n
}

func escapeLength(s []byte) int {
	if len(s) > 1 && s[1] == 'u' {
		return min(len(s), len(`\u0000`))
	}
	return min(len(s), len(`\n`))
}
