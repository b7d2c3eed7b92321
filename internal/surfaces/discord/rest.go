package discord

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/disgoorg/disgo/rest"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// callLimit bounds a call whose caller set no bound.
	callLimit = 30 * time.Second
	// maxTries is how often a call is made that Discord wants later (429).
	maxTries = 3
	// library is what makes the calls, by its module's name.
	library = "github.com/disgoorg/disgo"
)

// api makes REST calls within Discord's limits.
type api struct {
	client rest.Client
	limits *limiter
}

func newAPI(o Options) *api {
	limits := newLimiter()
	return &api{limits: limits, client: rest.NewClient(o.Token,
		rest.WithURL(o.APIURL), rest.WithHTTPClient(o.HTTP), rest.WithRateLimiter(limits),
		rest.WithUserAgent(userAgent(o.Version)), rest.WithLogger(slog.New(slog.DiscardHandler)),
	)}
}

// userAgent names the library and its version, as Discord asks for, and behind
// them the program ("API Reference", User Agent).
func userAgent(version string) string {
	of := "0"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == library {
				of = strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	out := "DiscordBot (https://" + library + ", " + of + ") Lilac"
	if version != "" {
		out += "/" + version
	}
	return out
}

// do makes a call; its error is a fault.
func (a *api) do(ctx context.Context, e *rest.CompiledEndpoint, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for try := 1; ; try++ {
		err := a.client.Do(e, body, into, rest.WithCtx(ctx))
		if err == nil {
			return nil
		}
		err = asFault(ctx, err, e.Endpoint.Method == http.MethodGet)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.RateLimited || f.RetryAfter == 0 || try == maxTries {
			return err
		}
		// The limiter waits as long as the answer said, or refuses.
	}
}

// asFault says what an error of the library means. Nobody knows what became
// of a writing call that was not answered: that is a Timeout.
func asFault(ctx context.Context, err error, reading bool) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	var refused *rest.Error
	if errors.As(err, &refused) && refused.Response != nil {
		return refusal(refused, reading)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) && reading {
		return fault.Wrap(fault.Cancelled, err, "The call of Discord was given up.")
	}
	var op *net.OpError
	if reading || errors.As(err, &op) && op.Op == "dial" {
		return fault.Wrap(fault.Unavailable, err, "Discord cannot be reached.")
	}
	return fault.Wrap(fault.Timeout, err, "Discord did not answer, so nobody knows whether it was done.")
}

// refusal maps what Discord answered ("Opcodes and Status Codes", JSON error
// codes).
func refusal(e *rest.Error, reading bool) error {
	kind, message := fault.Invalid, "Discord refused it: "+e.Message
	status := e.Response.StatusCode
	switch {
	case e.Code == 30046:
		// Of an old message it takes no more edits for an hour.
		kind, message = fault.Conflict, "Discord takes no more edits of this message for now."
	case e.Code == 50083:
		// A new message makes the thread active again ("Threads", active &
		// archived threads).
		kind, message = fault.Conflict, "The thread is archived, so nothing in it can be changed."
	case status == http.StatusTooManyRequests:
		f := fault.Wrap(fault.RateLimited, e, "Discord wants us to wait before the next request.")
		f.RetryAfter, _ = seconds(e.Response.Header, "Retry-After")
		return f
	case status == http.StatusUnauthorized:
		return errBadToken
	case e.Code == 50001 || e.Code == 50013 || e.Code == 160002:
		kind, message = fault.Denied, "The bot lacks a permission in this channel (“lilac doctor” says which): "+e.Message
	case status == http.StatusForbidden:
		kind = fault.Denied
	case status == http.StatusNotFound:
		kind, message = fault.NotFound, "It is not on Discord any more: "+e.Message
	case status == http.StatusRequestEntityTooLarge || e.Code == 40005:
		kind, message = fault.TooLarge, "Discord takes no files of this size."
	case status == http.StatusServiceUnavailable || status >= 500 && reading:
		kind, message = fault.Unavailable, "Discord has trouble of its own."
	case status >= 500:
		kind, message = fault.Timeout, "Discord had trouble of its own, so nobody knows whether it was done."
	}
	f := fault.Wrap(kind, e, "%s", message)
	f.Code = code(e)
	return f
}

// The codes of refusals for want of a permission.
const (
	codeNoAccess     = "missing_access"
	codeNoPermission = "missing_permissions"
)

func code(e *rest.Error) string {
	switch e.Code {
	case 10003:
		return surface.CodeUnknownChannel
	case 10008:
		return "unknown_message"
	case 30046:
		return "too_many_edits"
	case 50083:
		return "thread_archived"
	case 50001:
		return codeNoAccess
	case 50013, 160002:
		return codeNoPermission
	}
	return ""
}
