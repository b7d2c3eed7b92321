package companion

import (
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// maxReply is the maximum number of bytes of a server's error text in a message.
const maxReply = 200

// advice has what to do about an error reply, by its first word.
var advice = map[string]string{
	"OOM":        "it has used up its memory. Raise maxmemory there",
	"MISCONF":    "it cannot save to its disk. Look at its disk and its log",
	"NOREPLICAS": "too few replicas are there for its min-replicas-to-write. Start them, or lower it",
	"READONLY":   "it is a replica. Name its primary in bus.url, or use sentinels",
	"LOADING":    "it is loading its data. Wait for that",
	"NOAUTH":     "it wants a password. Set it in bus.url or bus.passwordFile",
	"WRONGPASS":  "it refuses the user or the password. Set the right ones in bus.url or bus.passwordFile",
	"DENIED":     "it is in protected mode, in which other machines cannot use it. Set a password there and in bus.url or bus.passwordFile",
}

// explain returns the error for what Redis answered, or for no answer. Its kind is
// always Unavailable, because the reason may pass.
func (o Options) explain(err error) error {
	reply, answered := replyOf(err)
	if !answered {
		if _, explained := errors.AsType[*fault.Error](err); explained {
			return err
		}
		return fault.Wrap(fault.Unavailable, err, "Redis at %s cannot be reached", Server(o.URL))
	}
	return o.explainReply(reply.Error())
}

// explainReply returns the error for an error reply.
func (o Options) explainReply(reply string) error {
	// Valkey says this where Redis 7.0 says "The user executing the script …".
	reply, inScript := strings.CutPrefix(reply, "ACL failure in script: ")
	code, _, _ := strings.Cut(reply, " ")
	if why, ok := advice[code]; ok {
		return fault.New(fault.Unavailable, "Redis at %s cannot do its work: %s.", Server(o.URL), why)
	}
	if inScript || code == "NOPERM" || strings.HasPrefix(reply, "The user executing the script") {
		return fault.New(fault.Unavailable, "Redis at %s does not let the user in bus.url do what is needed: %s. Allow it with ACL SETUSER.", Server(o.URL), brief(reply))
	}
	hint := ""
	switch {
	case strings.EqualFold(code, "unknown"):
		hint = " Lilac needs Redis 7.0 or later, without rename-command."
	case strings.HasPrefix(reply, "max number of clients"):
		hint = " Raise maxclients there."
	}
	return fault.New(fault.Unavailable, "Redis at %s cannot do its work: %s.%s", Server(o.URL), brief(reply), hint)
}

// brief shortens a server's error text to one line. It removes the name of the script that
// Redis appends to it, and the arguments of the command, which may have the text of events.
func brief(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s, _, _ = strings.Cut(s, " script: ")
	s, _, _ = strings.Cut(s, ", with args beginning with")
	return strings.TrimRight(text.Truncate(s, maxReply), ". \r")
}

// isReply reports whether err is an error reply that begins with a word.
func isReply(err error, code string) bool {
	reply, answered := replyOf(err)
	return answered && strings.HasPrefix(reply.Error(), code)
}

// replyOf returns the error reply in the chain of err.
func replyOf(err error) (*rueidis.RedisError, bool) { return errors.AsType[*rueidis.RedisError](err) }
