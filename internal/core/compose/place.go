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
	// maxTitle bounds the title of a thread or channel, in characters.
	maxTitle = 100
)

// Place returns a message, written by nobody, that tells the model in which thread
// the conversation is. Its id depends on the titles, so that the model is told
// again when they change.
func Place(thread surface.Session, parentTitle string) surface.Message {
	line := "This conversation is in the thread " + strconv.Quote(title(thread.Title))
	if parentTitle != "" {
		line += " of the channel " + strconv.Quote("#"+strings.TrimPrefix(title(parentTitle), "#"))
	}
	sum := sha256.Sum256([]byte(line))
	return surface.Message{
		Platform: thread.Platform, ChannelID: thread.ChannelID, ID: placePrefix + hex.EncodeToString(sum[:8]), Text: "(" + line + ".)",
	}
}

func title(s string) string {
	return text.TruncateRunes(strings.Join(strings.Fields(neutralize(s)), " "), maxTitle)
}

// IsPlace reports whether an id is that of a [Place].
func IsPlace(messageID string) bool { return strings.HasPrefix(messageID, placePrefix) }
