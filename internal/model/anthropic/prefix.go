package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
)

// prefixHash is the hash of a conversation up to a message. Newer models refuse or drop a
// thinking block if the system prompt, the tools, or an earlier message has changed since
// the model wrote it (after a compaction, for example). So each answer records the hash of
// its conversation, and its thinking is sent back only behind the same conversation.
type prefixHash struct{ h hash.Hash }

// add appends values, which must encode as JSON in a deterministic way.
func (p *prefixHash) add(values ...any) {
	if p.h == nil {
		p.h = sha256.New()
	}
	_ = json.NewEncoder(p.h).Encode(values) // a hash never fails, and requests are JSON
}

func (p *prefixHash) sum() string {
	if p.h == nil {
		return ""
	}
	return hex.EncodeToString(p.h.Sum(nil)[:12])
}
