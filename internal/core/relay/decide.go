package relay

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
)

// Row is what is kept of a request's relay.
type Row struct {
	RequestID string `json:"requestId"`
	SessionID string `json:"sessionId"`
	Platform  string `json:"platform"`
	// ReplyTo is the message that asked, "" for none.
	ReplyTo string `json:"replyTo,omitempty"`
	// Mention is the person whom the answer begins with, "" for nobody.
	Mention string `json:"mention,omitempty"`
	// Started says that the output is to be shown, Finished that it is.
	Started  bool      `json:"started,omitempty"`
	Finished bool      `json:"finished,omitempty"`
	Cuts     []Cut     `json:"cuts,omitempty"`
	Messages []Message `json:"messages,omitempty"`
	End      *End      `json:"end,omitempty"`
	// Reason says why nothing can be shown any more.
	Reason string `json:"reason,omitempty"`
}

// MessageState is where a message is in its life.
type MessageState string

// The states of a message.
const (
	MessagePlanned MessageState = "planned"
	MessageSent    MessageState = "sent"
	// MessageUnsent was not sent in time, and is planned again.
	MessageUnsent MessageState = "unsent"
	// MessageLost could not be sent, or was deleted by somebody.
	MessageLost MessageState = "lost"
)

// Message is one that was made to show the output.
type Message struct {
	Key   string       `json:"key"`
	State MessageState `json:"state"`
	// ID is the platform's, when it was sent.
	ID string `json:"id,omitempty"`
	// Refused says why its files were not sent, "" if they were.
	Refused string `json:"refused,omitempty"`
	// Files are the ids of the binaries that went with it.
	Files []string `json:"files,omitempty"`
	// Copies counts how often it had to be made anew: the platform took no more
	// edits, or nothing at all for too long.
	Copies int `json:"copies,omitempty"`
	// Old is the id of the copy before, until it is deleted.
	Old string `json:"old,omitempty"`
	// Shown is what it was last made to show, as [View] looks.
	Shown string `json:"shown,omitempty"`
}

func (r Row) message(key string) (Message, bool) {
	i := slices.IndexFunc(r.Messages, func(m Message) bool { return m.Key == key })
	if i < 0 {
		return Message{}, false
	}
	return r.Messages[i], true
}

// set replaces a message, or adds it.
func (r *Row) set(m Message) {
	r.Messages = slices.Clone(r.Messages)
	if i := slices.IndexFunc(r.Messages, func(o Message) bool { return o.Key == m.Key }); i >= 0 {
		r.Messages[i] = m
		return
	}
	r.Messages = append(r.Messages, m)
}

// outboxKey is the key of the outbox's row that makes a message.
func (r Row) outboxKey(m Message) string {
	return fmt.Sprintf("%s:%s:%s~%d", HookName, r.RequestID, m.Key, m.Copies)
}

// planned are the keys of the outbox's rows that are not known to have ended.
func (r Row) planned() (keys []string) {
	for _, m := range r.Messages {
		if m.State == MessagePlanned {
			keys = append(keys, r.outboxKey(m))
		}
	}
	return keys
}

// made is what rendering needs to know of the messages.
func (r Row) made() Made {
	made := Made{Messages: map[string]bool{}, Files: map[string]string{}, Refused: map[string]string{}}
	for _, m := range r.Messages {
		made.Messages[m.Key] = true
		for _, id := range m.Files {
			if made.Files[id] = m.Key; m.Refused != "" {
				made.Refused[id] = m.Refused
			}
		}
	}
	return made
}

// Act is one thing to do at the platform.
type Act struct {
	Kind ActKind
	View View
	// Message is the one that is edited or deleted; of one that is sent, what
	// will be kept of it.
	Message Message
}

// ActKind says what is to be done.
type ActKind string

// The kinds of acts.
const (
	ActSend   ActKind = "send"
	ActEdit   ActKind = "edit"
	ActDelete ActKind = "delete"
)

// Decide compares what should be seen with what is; final says that the output
// has ended. Settled is true when nothing is left to do or to wait for.
func Decide(r Row, views []View, final bool) (acts []Act, settled bool) {
	settled = true
	for _, v := range views {
		m, there := r.message(v.Key)
		switch {
		case !there || m.State == MessageUnsent:
			settled = false
			if v.ReplyToKey != "" {
				t, _ := r.message(v.ReplyToKey)
				if t.State != MessageSent && t.State != MessageLost {
					return acts, false // its id is needed
				}
				v.ReplyTo = t.ID
			}
			if there {
				m.Copies++
			} else {
				m.Key = v.Key
				for _, b := range v.Files {
					m.Files = append(m.Files, b.BinaryID)
				}
			}
			m.State = MessagePlanned
			acts = append(acts, Act{Kind: ActSend, View: v, Message: m})
		case m.State == MessagePlanned:
			settled = false
		case m.State == MessageSent && m.Old != "":
			settled = false
			acts = append(acts, Act{Kind: ActDelete, Message: m})
		case m.State == MessageSent && (v.Text != "" || v.Bare) && m.Shown != v.looks():
			settled = false
			acts = append(acts, Act{Kind: ActEdit, View: v, Message: m})
		}
	}
	if !final {
		return acts, false
	}
	for _, m := range r.Messages {
		if slices.ContainsFunc(views, func(v View) bool { return v.Key == m.Key }) || m.State == MessageLost || m.State == MessageUnsent {
			continue
		}
		settled = false
		if m.State == MessageSent {
			acts = append(acts, Act{Kind: ActDelete, Message: m})
		}
	}
	return acts, settled
}

// looks stands for what an edit can change, a hash of it.
func (v View) looks() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%t %t", v.Text, v.Stop, v.Bare))
	return base64.RawStdEncoding.EncodeToString(sum[:12])
}
