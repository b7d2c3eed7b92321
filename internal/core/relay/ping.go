package relay

import (
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/event"
)

// pingKey is the key of the message that notifies users at the end of an answer.
const pingKey = "ping.0"

// withPing adds a short message to a complete answer if it has to notify somebody:
// users whose names the text got by an edit, because edits notify nobody, and the
// users who asked, if they have waited for pingAfter or longer.
func (d *decision) withPing(views []View, askers []Asker, pingAfter time.Duration) []View {
	if d.Reason != "" || d.End == nil || d.End.State == event.StateCancelled {
		return views
	}
	at := -1
	for i, v := range views {
		if v.Text != "" {
			at = i
		}
	}
	if at < 0 {
		return views
	}
	var users []string
	if sent, ok := d.message(pingKey); ok {
		users = sent.Pinged
	} else {
		users = d.unpinged(views, askers, pingAfter)
	}
	if len(users) == 0 {
		return views
	}
	return append(slices.Clone(views), View{Key: pingKey, Text: pingText(users), Users: users, ReplyToKey: views[at].Key})
}

// unpinged returns the users who have to be notified at the end.
func (d *decision) unpinged(views []View, askers []Asker, pingAfter time.Duration) (users []string) {
	var pinged []string
	for _, m := range d.Messages {
		pinged = append(pinged, m.Pinged...)
	}
	for _, v := range views {
		if _, exists := d.message(v.Key); !exists {
			pinged = append(pinged, v.Users...) // it notifies them when it is sent
		}
	}
	for _, a := range askers {
		if waited := time.Duration(d.End.At-a.AskedAt) * time.Millisecond; pingAfter > 0 && waited >= pingAfter {
			users = append(users, a.UserID)
		}
	}
	for _, v := range views {
		for _, id := range v.Users {
			if !slices.Contains(pinged, id) && !slices.Contains(users, id) {
				users = append(users, id)
			}
		}
	}
	return users
}

func pingText(users []string) string {
	return "🔔 <@" + strings.Join(users, "> <@") + ">"
}
