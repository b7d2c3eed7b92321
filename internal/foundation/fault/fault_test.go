package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
)

func TestKindsDecideStatusExitAndRetry(t *testing.T) {
	for _, c := range []struct {
		kind         fault.Kind
		status, exit int
		retry, valid bool
	}{
		{fault.Internal, 500, 1, false, true},
		{fault.Invalid, 400, 2, false, true},
		{fault.Unauthenticated, 401, 3, false, true},
		{fault.Denied, 403, 3, false, true},
		{fault.NotFound, 404, 4, false, true},
		{fault.Conflict, 409, 5, false, true},
		{fault.TooLarge, 413, 2, false, true},
		{fault.Gone, 410, 4, false, true},
		{fault.RateLimited, 429, 6, true, true},
		{fault.Unavailable, 503, 6, true, true},
		{fault.Timeout, 504, 7, true, true},
		{fault.Cancelled, 499, 8, false, true},
		{fault.LimitReached, 429, 1, false, true},
		{"of tomorrow", 500, 1, false, false},
		{"", 500, 1, false, false},
	} {
		k := c.kind
		if k.HTTPStatus() != c.status || k.ExitCode() != c.exit || k.Retryable() != c.retry || k.Valid() != c.valid {
			t.Errorf("%q: %d, %d, %v, %v", k, k.HTTPStatus(), k.ExitCode(), k.Retryable(), k.Valid())
		}
	}
}

func TestKindOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"nil":                        {nil, ""},
		"unclassified":               {errors.New("x"), fault.Internal},
		"deadline":                   {fmt.Errorf("call: %w", context.DeadlineExceeded), fault.Timeout},
		"cancel":                     {context.Canceled, fault.Cancelled},
		"wrapped":                    {fmt.Errorf("do: %w", fault.New(fault.Conflict, "x")), fault.Conflict},
		"the outer one counts":       {fault.Wrap(fault.Unavailable, fault.New(fault.Invalid, "x"), "y"), fault.Unavailable},
		"before the context's":       {fault.Wrap(fault.Unavailable, context.Canceled, "y"), fault.Unavailable},
		"a kind that does not count": {&fault.Error{Kind: "odd"}, fault.Internal},
		"no kind":                    {&fault.Error{}, fault.Internal},
	} {
		if got := fault.KindOf(c.err); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTheCauseIsNoPartOfTheAdvice(t *testing.T) {
	for message, want := range map[string]string{
		"No server answers. Start one with: lilac serve": "No server answers. Start one with: lilac serve (refused)",
		"The disk is full.": "The disk is full. (refused)",
		"open the file":     "open the file: refused",
	} {
		if got := fault.Wrap(fault.Unavailable, errors.New("refused"), "%s", message).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheWireNeverHoldsTheCause(t *testing.T) {
	secret := errors.New("password=hunter2")
	for name, err := range map[string]error{
		"classified":   fault.Wrap(fault.Unavailable, secret, "The store is away."),
		"in a chain":   fmt.Errorf("do: %w", fault.Wrap(fault.Internal, secret, "No.")),
		"unclassified": secret,
		"timeout":      fmt.Errorf("%w: %w", secret, context.DeadlineExceeded),
	} {
		out, merr := json.Marshal(fault.ToWire(err))
		if merr != nil || strings.Contains(string(out), "hunter2") {
			t.Errorf("%s: %s, %v", name, out, merr)
		}
		if !strings.Contains(err.Error(), "hunter2") { // control: the log contains the cause
			t.Errorf("%s: the log lacks the cause: %v", name, err)
		}
		if !errors.Is(err, secret) {
			t.Errorf("%s: the cause is not in the chain", name)
		}
	}
}

func TestTheWireAndBack(t *testing.T) {
	in := fault.InvalidField("content", "The %s is empty.", "content")
	in.Code = "empty"
	w := fault.ToWire(in)
	out, err := json.Marshal(w)
	if err != nil || string(out) != `{"kind":"invalid","code":"empty","message":"The content is empty.","field":"content","retryable":false}` {
		t.Errorf("%s, %v", out, err)
	}
	if back := fault.FromWire(w); back.Kind != in.Kind || back.Code != in.Code || back.Message != in.Message || back.Field != in.Field {
		t.Errorf("came back as %+v", back)
	}
	if back := fault.FromWire(fault.Wire{Kind: "of tomorrow"}); back.Kind != fault.Internal {
		t.Errorf("an unknown kind became %q", back.Kind)
	}
	if !fault.ToWire(fault.New(fault.RateLimited, "x")).Retryable {
		t.Error("a rate limit is worth a retry")
	}
}

func TestNearFindsWhatWasMeant(t *testing.T) {
	candidates := []string{"sandbox", "session", "limits", "a", "release-room", "gibbet"}
	for word, want := range map[string][]string{
		"sandbx":       {"sandbox"},
		"Sesion":       {"session"},
		"release-rom":  {"release-room"},
		"b":            nil,
		"quite-absent": nil,
		"ribbon":       nil, // three letters away from session
		"":             nil,
	} {
		if got := fault.Near(word, candidates); !slices.Equal(got, want) {
			t.Errorf("Near(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestASlipIsALetterOrTwo(t *testing.T) {
	words := []string{"webhook.received", "timer.fired", "file"}
	for word, want := range map[string]string{
		"webhook.recieved": "webhook.received", "webhook.receive": "webhook.received", "timers.fired": "timer.fired", "files": "file",
		"timer.fired": "", "role": "", "fire": "", "webhook": "", "web.received": "", "": "",
	} {
		if got := fault.Slip(word, words); got != want {
			t.Errorf("%q is taken for %q, want %q", word, got, want)
		}
	}
}
