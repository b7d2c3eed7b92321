package text

import (
	"crypto/sha256"
	"encoding/hex"
)

// Marked returns name, cut so that it has at most limit bytes with a mark of nine, which follows from whole alone: it
// tells names apart that have become the same. name must be ASCII.
func Marked(name, whole string, limit int) string {
	sum := sha256.Sum256([]byte(whole))
	mark := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), limit-len(mark))] + mark
}
