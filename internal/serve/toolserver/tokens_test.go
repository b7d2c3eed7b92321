package toolserver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// held is a token as the test knows it should be.
type held struct {
	token  string
	grant  Grant
	revoke func()
	dead   bool
}

var patterns = [][]string{{"*"}, {"surface.*"}, {"events.publish"}, {"surface.read", "other"}}

// crossUses plays with the tokens of several requests at random and returns the
// calls that were allowed and should not have been, and the reverse.
func crossUses(rt *rapid.T, database *db.DB, o Options) (wrong []string) {
	ids := []string{"surface.read", "surface.list", "events.publish", "other"}
	for _, id := range ids {
		c := echo(id)
		c.Changes = id == "events.publish"
		o.Callables = append(o.Callables, c)
	}
	// Operators and the database outlive the server.
	table := &operatorTable{tokens: map[string]OperatorToken{}}
	o.Operators = &Operators{DB: database, Table: table}
	requests := []string{"r0", "r1", "r2"}
	alive := map[string]bool{}
	// life is what a grant lives as long as.
	life := func(g Grant) string { return cmp.Or(g.TaskID, g.RequestID) }
	o.Alive = func(g Grant) bool { return alive[life(g)] }
	s, err := New(o)
	if err != nil {
		rt.Fatal(err)
	}
	var all []*held
	for range rapid.IntRange(5, 40).Draw(rt, "steps") {
		step := rapid.SampledFrom([]string{"mint", "call", "call", "call", "forge", "end", "revoke", "restart", "operator"}).Draw(rt, "step")
		request := rapid.SampledFrom(requests).Draw(rt, "request")
		if step == "mint" || len(all) == 0 {
			g := Grant{RequestID: request, SessionID: "session of " + request}
			g.Callables = rapid.SampledFrom(append(patterns, []string{})).Draw(rt, "callables")
			g.Tools = rapid.SampledFrom([]grant.Grant{nil, grant.Of(grant.Tools{Deny: []string{"surface"}}), grant.Of(grant.Tools{Allow: []string{"events.*", "other"}})}).Draw(rt, "tools")
			if rapid.Bool().Draw(rt, "of a task") {
				g.TaskID, g.ReadOnly = "task of "+request, true
			}
			token, revoke, err := s.Mint(g)
			if err != nil {
				rt.Fatal(err)
			}
			alive[life(g)] = true
			all = append(all, &held{token: token, grant: g, revoke: revoke})
			continue
		}
		if step == "operator" {
			g := Grant{Operator: fmt.Sprintf("operator%d", len(all)), Callables: rapid.SampledFrom(patterns).Draw(rt, "callables")}
			token, err := o.Operators.Create(rt.Context(), g.Operator, g.Callables, "")
			if err != nil {
				rt.Fatal(err)
			}
			all = append(all, &held{token: token, grant: g, revoke: func() {
				if err := o.Operators.Revoke(rt.Context(), g.Operator); err != nil && fault.KindOf(err) != fault.NotFound {
					rt.Error(err)
				}
			}})
			continue
		}
		one := all[rapid.IntRange(0, len(all)-1).Draw(rt, "token")]
		switch step {
		case "call":
			id := rapid.SampledFrom(ids).Draw(rt, "callable")
			code, body := send(s.Handler(), one.token, id, "{}", "x-lilac-session-id", "session of r0", "x-lilac-request-id", "r0")
			may := !one.dead && (alive[life(one.grant)] || one.grant.Operator != "") && allows(one.grant.Callables, id) && one.grant.Tools.Allows(id) && !(one.grant.ReadOnly && id == "events.publish")
			if may != (code == http.StatusOK) || may && !strings.Contains(body, one.grant.SessionID) {
				wrong = append(wrong, fmt.Sprintf("%s of %s: may %v, but %d %s", id, one.grant.RequestID, may, code, body))
			}
		case "forge":
			at := rapid.IntRange(0, len(one.token)-1).Draw(rt, "at")
			other := "0"
			if one.token[at] == '0' {
				other = "1"
			}
			forged := rapid.SampledFrom([]string{
				one.token[:at] + other + one.token[at+1:], one.token[:at], one.token + "0", strings.ToUpper(one.token) + "A", "", one.grant.RequestID,
			}).Draw(rt, "forged")
			if code, _ := send(s.Handler(), forged, "surface.read", "{}"); code != http.StatusUnauthorized {
				wrong = append(wrong, fmt.Sprintf("the forged token %q: status %d", forged, code))
			}
		case "end":
			alive[rapid.SampledFrom([]string{request, "task of " + request}).Draw(rt, "ended")] = false
		case "revoke":
			one.revoke()
			one.dead = true
		case "restart":
			if s, err = New(o); err != nil {
				rt.Fatal(err)
			}
			for _, one := range all {
				one.dead = one.dead || one.grant.Operator == ""
			}
		}
	}
	return wrong
}

func TestATokenDoesOnlyItsOwnJobAndDiesWithItsRequest(t *testing.T) {
	database := openDB(t)
	rapid.Check(t, func(rt *rapid.T) {
		if wrong := crossUses(rt, database, Options{}); len(wrong) > 0 {
			rt.Fatal(strings.Join(wrong, "\n"))
		}
	})
	// Control: when tokens are not bound to anything, the property sees it.
	found := 0
	rapid.Check(t, func(rt *rapid.T) { found += len(crossUses(rt, database, Options{unbound: true})) })
	if found == 0 {
		t.Error("with tokens that are bound to nothing no cross use was seen: the property shows nothing")
	}
}

func waits(limit time.Duration, started func()) Callable {
	return NewCallable(Callable{ID: "wait", Time: limit}, func(ctx context.Context, _ Caller, _ struct{}) (any, error) {
		started()
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

func TestACallEndsWhenItsTokenDies(t *testing.T) {
	started := make(chan struct{})
	s := newServer(t, Options{Callables: []Callable{waits(0, func() { close(started) })}})
	token, revoke, err := s.Mint(Grant{RequestID: "r", Callables: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-started
		revoke()
	}()
	if code, body := send(s.Handler(), token, "wait", "{}"); code != 499 || !strings.Contains(body, "request_ended") {
		t.Errorf("%d %s", code, body)
	}
}

func TestACallThatTakesTooLongIsGivenUp(t *testing.T) {
	s := newServer(t, Options{Callables: []Callable{waits(time.Millisecond, func() {})}})
	if code, body := send(s.Handler(), mint(t, s, "*"), "wait", "{}"); code != http.StatusGatewayTimeout || !strings.Contains(body, `"retryable":true`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestATokenMakesABoundedNumberOfCalls(t *testing.T) {
	s := newServer(t, Options{Callables: []Callable{echo("a")}})
	token := mint(t, s, "*")
	for i := range maxCalls {
		if code, body := send(s.Handler(), token, "a", "{}"); code != http.StatusOK {
			t.Fatalf("call %d: %d %s", i, code, body)
		}
	}
	if code, _ := send(s.Handler(), token, "a", "{}"); code != http.StatusTooManyRequests {
		t.Errorf("one call more: %d", code)
	}
}

func TestCallsAndAnswersAreBoundedInSize(t *testing.T) {
	s := newServer(t, Options{Callables: []Callable{
		echo("a"),
		NewCallable(Callable{ID: "long"}, func(context.Context, Caller, struct{}) (any, error) { return strings.Repeat("x", maxValue), nil }),
	}})
	token := mint(t, s, "*")
	if code, _ := send(s.Handler(), token, "a", `{"x":"`+strings.Repeat("x", maxInput)+`"}`); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a long call: %d", code)
	}
	if code, _ := send(s.Handler(), token, "long", "{}"); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a long answer: %d", code)
	}
}

func TestWhatChangesSomethingIsRecordedBeforeItRuns(t *testing.T) {
	var records []Record
	broken, ran := false, 0
	s := newServer(t, Options{
		Callables: []Callable{NewCallable(Callable{ID: "change", Changes: true}, func(context.Context, Caller, struct{}) (any, error) {
			if ran++; len(records) != 1 {
				t.Errorf("%d records when it runs", len(records))
			}
			return nil, fault.New(fault.Conflict, "No.")
		})},
		Record: func(_ context.Context, r Record) error {
			if broken {
				return fault.New(fault.Unavailable, "The disk is full.")
			}
			records = append(records, r)
			return nil
		},
	})
	token := mint(t, s, "*")
	if code, body := send(s.Handler(), token, "change", "{}"); code != http.StatusConflict {
		t.Errorf("%d %s", code, body)
	}
	if len(records) != 2 || records[0].Outcome != Started || records[1].Outcome != "conflict" || records[1].Caller.RequestID != "r" {
		t.Errorf("%+v", records)
	}
	broken = true
	if code, _ := send(s.Handler(), token, "change", "{}"); code != http.StatusServiceUnavailable || ran != 1 {
		t.Errorf("without a record: %d, ran %d times", code, ran)
	}
}

func TestAPanicIsAnErrorOfOneCall(t *testing.T) {
	s := newServer(t, Options{Callables: []Callable{
		NewCallable(Callable{ID: "panics"}, func(context.Context, Caller, struct{}) (any, error) { panic("secret detail") }),
	}})
	if code, body := send(s.Handler(), mint(t, s, "*"), "panics", "{}"); code != http.StatusInternalServerError || strings.Contains(body, "secret") {
		t.Errorf("%d %s", code, body)
	}
}
