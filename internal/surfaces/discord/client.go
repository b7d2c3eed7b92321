package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	// callTimeout bounds a call, including its waits for rate limits.
	callTimeout = 30 * time.Second
	// maxAttempts bounds how often a rate-limited call (429) is made.
	maxAttempts = 3
	// maxResponse bounds the body of a response. The largest is a page of 100
	// messages with embeds.
	maxResponse = 32 << 20
	// projectURL identifies the program to Discord ("API Reference", User Agent).
	projectURL = "https://lilac.invalid"
)

// client makes REST calls within Discord's rate limits. It is safe for
// concurrent use.
type client struct {
	http      *http.Client
	apiURL    string
	token     string
	userAgent string
	limits    *limiter
}

func newClient(o Options) *client {
	return &client{http: o.HTTP, apiURL: strings.TrimSuffix(o.APIURL, "/"), token: o.Token, userAgent: userAgent(o.Version), limits: newLimiter()}
}

func userAgent(version string) string {
	if version == "" {
		version = "0"
	}
	return "DiscordBot (" + projectURL + ", " + strings.Join(strings.Fields(version), "-") + ") Lilac"
}

// upload is a file of a message.
type upload struct {
	name string
	data []byte
}

// do makes a call with a JSON body and files, and decodes the response into
// result; body and result may be nil. Its errors are faults.
func (c *client) do(ctx context.Context, k call, body any, files []upload, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, contentType, err := encodeBody(body, files)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "Lilac could not encode the call of Discord.")
	}
	for attempt := 1; ; attempt++ {
		err := c.attempt(ctx, k, data, contentType, result)
		if err == nil {
			return nil
		}
		err = classify(ctx, err, k.reads())
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.RateLimited || f.RetryAfter == 0 || attempt == maxAttempts {
			return err
		}
		// The limiter waits as long as the response said, or refuses.
	}
}

// get makes a call without a body.
func (c *client) get(ctx context.Context, k call, result any) error {
	return c.do(ctx, k, nil, nil, result)
}

func encodeBody(body any, files []upload) (data []byte, contentType string, err error) {
	if body == nil {
		return nil, "", nil
	}
	if data, err = json.Marshal(body); err != nil || len(files) == 0 {
		return data, "application/json", err
	}
	var out bytes.Buffer
	parts := multipart.NewWriter(&out)
	write := func(disposition, partType string, content []byte) error {
		part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {partType}})
		if err != nil {
			return err
		}
		_, err = part.Write(content)
		return err
	}
	err = write(`form-data; name="payload_json"`, "application/json", data)
	for i, f := range files {
		err = errors.Join(err, write(fmt.Sprintf(`form-data; name="files[%d]"; filename="%s"`, i, f.name), "application/octet-stream", f.data))
	}
	err = errors.Join(err, parts.Close())
	return out.Bytes(), parts.FormDataContentType(), err
}

// refusedError is a response of Discord that is not a success.
type refusedError struct {
	status int
	header http.Header
	// Code and Message are Discord's ("Opcodes and Status Codes", JSON error
	// codes).
	Code    int    `json:"code"`
	Message string `json:"message"`
	// Fields has the mistakes in each field of the body ("API Reference", error messages).
	Fields any `json:"errors"`
	// foreign reports that the response is not Discord's: a proxy or the network in
	// front of Discord made it, or there is no API at the address. Discord has a code
	// for everything that does not exist.
	foreign bool
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("status %d, code %d: %s", e.status, e.Code, e.Message)
}

// maxWrong bounds the description of wrong fields, in characters.
const maxWrong = 500

// wrongFields describes the wrong fields of a body, "" if Discord names none.
func (e *refusedError) wrongFields() string {
	var all []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if text, ok := v["message"].(string); ok {
				all = append(all, path+": "+text)
				return
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if key == "_errors" {
					walk(path, v[key])
				} else {
					walk(strings.TrimPrefix(path+"."+key, "."), v[key])
				}
			}
		case []any:
			for _, element := range v {
				walk(path, element)
			}
		}
	}
	walk("", e.Fields)
	return text.TruncateRunes(strings.Join(all, "; "), maxWrong)
}

// attempt makes the call once, when the rate limits allow it.
func (c *client) attempt(ctx context.Context, k call, data []byte, contentType string, result any) error {
	address := c.apiURL + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, k.route.method, address, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("build the request: %w", err)
	}
	r.Header.Set("User-Agent", c.userAgent)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if !k.route.withoutToken {
		r.Header.Set("Authorization", "Bot "+c.token)
	}
	turn, err := c.limits.acquire(ctx, k)
	if err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if err != nil {
		c.limits.release(turn, k, nil)
		return fmt.Errorf("call Discord: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	refused := refusalOf(response, answer)
	c.limits.release(turn, k, response)
	switch {
	case err != nil:
		return fmt.Errorf("read the response: %w", err)
	case refused != nil:
		return refused
	}
	if result == nil {
		return nil
	}
	if _, err := decodeLenient(answer, result); err != nil {
		return fmt.Errorf("decode the response: %w", err)
	}
	return nil
}

// refusalOf returns why a call was refused, nil if it was not. If the network in front
// of Discord bans the address, it gives the response a wait.
func refusalOf(response *http.Response, answer []byte) *refusedError {
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return nil
	}
	e := &refusedError{status: response.StatusCode, header: response.Header}
	if json.Unmarshal(answer, e) != nil || e.Message == "" {
		e.Message, e.foreign = http.StatusText(response.StatusCode), true
	}
	if wrong := e.wrongFields(); wrong != "" {
		e.Message += " (" + wrong + ")"
	}
	e.foreign = e.foreign || e.status == http.StatusNotFound && e.Code == 0 || e.Code == internalNetworkError
	if wait, stated := retryAfter(e.header); e.status == http.StatusTooManyRequests && (!stated && e.Code == 0 || wait == 0 && e.foreign) {
		e.header.Set("Retry-After", strconv.Itoa(int(bannedPause.Seconds())))
	}
	return e
}

// decodeLenient decodes JSON, skipping fields whose type is not the expected
// one: Discord adds and changes fields, and one of them must not cost the whole
// message. skipped names the first such field, "" if there is none. IDs may be
// numbers, as other servers of the protocol send them.
func decodeLenient(data []byte, into any) (skipped string, err error) {
	err = json.Unmarshal(data, into)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Value == "number" {
		if data, err = withTextIDs(data); err != nil {
			return "", err
		}
		err = json.Unmarshal(data, into)
	}
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return mismatch.Field, nil // encoding/json has decoded all other fields
	}
	return "", err
}

// snowflakeDigits is the shortest length of an ID: Discord's first ones have 17 digits.
const snowflakeDigits = 15

// withTextIDs replaces the numbers in the fields of IDs by texts.
func withTextIDs(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // an ID has more digits than a float64
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(textIDs(v, false))
}

func textIDs(v any, isID bool) any {
	switch v := v.(type) {
	case json.Number:
		if isID && len(v) >= snowflakeDigits { // the IDs within a poll are small numbers
			return v.String()
		}
	case []any:
		for i, element := range v {
			v[i] = textIDs(element, isID)
		}
	case map[string]any:
		for key, value := range v {
			v[key] = textIDs(value, key == "id" || key == "roles" || strings.HasSuffix(key, "_id") || strings.HasSuffix(key, "_ids"))
		}
	}
	return v
}

// classify turns an error of a call into a fault. After a write without a
// response nobody knows whether Discord carried it out: that is a Timeout.
func classify(ctx context.Context, err error, reads bool) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.fault(reads)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) && reads {
		return fault.Wrap(fault.Cancelled, err, "The call of Discord was canceled.")
	}
	var op *net.OpError
	if reads || errors.As(err, &op) && op.Op == "dial" {
		return fault.Wrap(fault.Unavailable, err, "Discord cannot be reached.")
	}
	return fault.Wrap(fault.Timeout, err, "Discord did not answer, so it is unknown whether the call succeeded.")
}

// The JSON error codes that the adapter distinguishes ("Opcodes and Status
// Codes").
const (
	unknownChannel         = 10003
	unknownMessage         = 10008
	tooManyEdits           = 30046 // of a message older than an hour
	entityTooLarge         = 40005
	internalNetworkError   = 40333 // the network in front of Discord refused the call
	missingAccess          = 50001
	missingPermissions     = 50013
	invalidWebhookToken    = 50027 // the token of an interaction has expired
	threadArchived         = 50083
	replyWithoutReadAccess = 160002
)

// Codes of faults about a missing permission.
const (
	codeNoAccess     = "missing_access"
	codeNoPermission = "missing_permissions"
	// codeNoHistory means that a reply needs Read Message History.
	codeNoHistory = "missing_history"
	// codeNoReply means that nobody can reply to the message, for example because it
	// is a system message.
	codeNoReply = "no_reply"
)

func (e *refusedError) fault(reads bool) error {
	kind, message := fault.Invalid, "Discord refused the call: "+e.Message
	switch {
	case e.Code == tooManyEdits:
		kind, message = fault.Conflict, "Discord accepts no more edits of this message for now."
	case e.Code == threadArchived:
		// A new message would unarchive the thread ("Threads", active & archived
		// threads). Discord answers so in a locked thread, too.
		kind, message = fault.Conflict, "The thread is archived or locked, so the bot cannot write in it."
	case e.status == http.StatusTooManyRequests:
		f := fault.Wrap(fault.RateLimited, e, "Discord's rate limit requires a wait before the next request.")
		if after, ok := retryAfter(e.header); ok {
			f.RetryAfter = after
		}
		return f
	case e.Code == invalidWebhookToken: // it says nothing about the bot's token
		kind, message = fault.NotFound, "Discord no longer accepts replies to this command or button."
	case e.status == http.StatusUnauthorized:
		return errBadToken
	case e.Code == missingAccess || e.Code == missingPermissions || e.Code == replyWithoutReadAccess:
		kind, message = fault.Denied, "The bot lacks a permission in this channel (“lilac doctor” says which): "+e.Message
	case e.foreign && e.status < http.StatusInternalServerError && e.status != http.StatusRequestEntityTooLarge:
		// It says nothing about the message or the channel of the call.
		kind, message = fault.Unavailable, "The response is not from Discord: a proxy or the network in front of Discord refused the call, or Discord's API is not at surface.discord.apiURL. The address must end with the version, as in https://discord.com/api/v10."
	case e.status == http.StatusForbidden:
		kind = fault.Denied
	case e.status == http.StatusNotFound:
		kind, message = fault.NotFound, "Discord no longer has it: "+e.Message
	case e.status == http.StatusRequestEntityTooLarge || e.Code == entityTooLarge:
		kind, message = fault.TooLarge, "Discord does not accept files of this size."
	case e.status == http.StatusServiceUnavailable || e.status >= 500 && reads:
		kind, message = fault.Unavailable, "Discord has an internal error."
	case e.status >= 500:
		kind, message = fault.Timeout, "Discord had an internal error, so it is unknown whether the call succeeded."
	}
	f := fault.Wrap(kind, e, "%s", message)
	f.Code = e.faultCode()
	return f
}

func (e *refusedError) faultCode() string {
	switch e.Code {
	case unknownChannel:
		return surface.CodeUnknownChannel
	case unknownMessage:
		return "unknown_message"
	case tooManyEdits:
		return "too_many_edits"
	case threadArchived:
		return "thread_archived"
	case missingAccess:
		return codeNoAccess
	case missingPermissions:
		return codeNoPermission
	case replyWithoutReadAccess:
		return codeNoHistory
	}
	if fields, ok := e.Fields.(map[string]any); ok && fields["message_reference"] != nil {
		return codeNoReply
	}
	return ""
}
