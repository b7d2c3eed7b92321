package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/text"
)

const (
	// placePrefix begins the id of a place. No platform has such ids.
	placePrefix = "place:"
	// maxTitle and maxTopic bound the title of a thread or channel, and the topic of a channel, in
	// characters.
	maxTitle = 100
	maxTopic = 500
)

// Place returns a message, written by nobody, that tells the model in which channel or thread the
// conversation is. channel is that of a thread, and may have no title. The id of the message depends
// on the titles and the topic, so that the model is told again when they change.
func Place(session, channel surface.Session) surface.Message {
	line := "This conversation is in the "
	if session.Kind == surface.Thread {
		line += "thread " + quoted(session.Title, maxTitle)
		if channel.Title != "" {
			line += " of the "
		}
	} else {
		channel = session
	}
	if channel.Title != "" {
		line += "channel " + quoted("#"+strings.TrimPrefix(channel.Title, "#"), maxTitle)
	}
	line += "."
	if channel.Topic != "" {
		line += " The topic of the channel is " + quoted(channel.Topic, maxTopic) + "."
	}
	sum := sha256.Sum256([]byte(line))
	return surface.Message{
		Platform: session.Platform, ChannelID: session.ChannelID, ID: placePrefix + hex.EncodeToString(sum[:8]), Text: "(" + line + ")",
	}
}

// quoted returns a text of people in quotes, on one line.
func quoted(s string, most int) string {
	return strconv.Quote(text.TruncateRunes(strings.Join(strings.Fields(neutralize(s)), " "), most))
}

// IsPlace reports whether an id is that of a [Place].
func IsPlace(messageID string) bool { return strings.HasPrefix(messageID, placePrefix) }
