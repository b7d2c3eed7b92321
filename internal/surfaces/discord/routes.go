package discord

import (
	"net/http"
	"net/url"
	"strings"
)

// route is one operation of Discord's REST API.
type route struct {
	method string
	// path has placeholders in braces, which call fills in order.
	path string
	// withoutToken marks routes that are authorized by an interaction's token in
	// the path. They must not carry the bot's token.
	withoutToken bool
}

// The operations that the adapter uses, by the names of Discord's
// documentation.
var (
	getCurrentUser        = &route{method: http.MethodGet, path: "/users/@me"}
	getCurrentUserGuilds  = &route{method: http.MethodGet, path: "/users/@me/guilds"}
	getCurrentApplication = &route{method: http.MethodGet, path: "/applications/@me"}
	getGatewayBot         = &route{method: http.MethodGet, path: "/gateway/bot"}

	getGuild         = &route{method: http.MethodGet, path: "/guilds/{guild}"}
	getGuildRoles    = &route{method: http.MethodGet, path: "/guilds/{guild}/roles"}
	getGuildMember   = &route{method: http.MethodGet, path: "/guilds/{guild}/members/{user}"}
	getGuildChannels = &route{method: http.MethodGet, path: "/guilds/{guild}/channels"}

	getChannel                       = &route{method: http.MethodGet, path: "/channels/{channel}"}
	listPublicArchivedThreads        = &route{method: http.MethodGet, path: "/channels/{channel}/threads/archived/public"}
	listJoinedPrivateArchivedThreads = &route{method: http.MethodGet, path: "/channels/{channel}/users/@me/threads/archived/private"}
	triggerTyping                    = &route{method: http.MethodPost, path: "/channels/{channel}/typing"}

	createDM           = &route{method: http.MethodPost, path: "/users/@me/channels"}
	getChannelMessages = &route{method: http.MethodGet, path: "/channels/{channel}/messages"}
	getChannelMessage  = &route{method: http.MethodGet, path: "/channels/{channel}/messages/{message}"}
	createMessage      = &route{method: http.MethodPost, path: "/channels/{channel}/messages"}
	editMessage        = &route{method: http.MethodPatch, path: "/channels/{channel}/messages/{message}"}
	deleteMessage      = &route{method: http.MethodDelete, path: "/channels/{channel}/messages/{message}"}
	createReaction     = &route{method: http.MethodPut, path: "/channels/{channel}/messages/{message}/reactions/{emoji}/@me"}
	deleteOwnReaction  = &route{method: http.MethodDelete, path: "/channels/{channel}/messages/{message}/reactions/{emoji}/@me"}

	// refreshURLs renews expired URLs of attachments. That they expire is
	// documented ("API Reference", signed attachment CDN URLs); this operation is
	// not, but Discord's own client uses it.
	refreshURLs = &route{method: http.MethodPost, path: "/attachments/refresh-urls"}

	bulkOverwriteGlobalCommands     = &route{method: http.MethodPut, path: "/applications/{application}/commands"}
	createInteractionResponse       = &route{method: http.MethodPost, path: "/interactions/{interaction}/{token}/callback", withoutToken: true}
	editOriginalInteractionResponse = &route{method: http.MethodPatch, path: "/webhooks/{application}/{token}/messages/@original", withoutToken: true}
)

// call is a route with its parameters.
type call struct {
	route *route
	path  string
	query url.Values
	// limitKey identifies the rate limit before Discord names its bucket: method,
	// path, and top-level resource ("Rate Limits").
	limitKey string
	// resource is the top-level resource of the limit.
	resource string
}

// with fills the placeholders of the path in order.
func (r *route) with(parameters ...string) call {
	var path, resource strings.Builder
	rest := r.path
	for _, value := range parameters {
		before, after, _ := strings.Cut(rest, "{")
		name, tail, _ := strings.Cut(after, "}")
		path.WriteString(before)
		path.WriteString(url.PathEscape(value))
		switch name {
		case "guild", "channel", "token": // the top-level resources of limits
			resource.WriteString(value + " ")
		}
		rest = tail
	}
	path.WriteString(rest)
	return call{route: r, path: path.String(), resource: resource.String(), limitKey: r.method + " " + r.path + " " + resource.String()}
}

// search adds query parameters.
func (c call) search(query url.Values) call {
	c.query = query
	return c
}

// reads reports whether the call changes nothing, so that it is safe to repeat.
func (c call) reads() bool { return c.route.method == http.MethodGet }
