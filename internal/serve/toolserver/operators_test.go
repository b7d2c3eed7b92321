package toolserver

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

func openDB(t testing.TB) *db.DB {
	t.Helper()
	database, err := db.Open(context.Background(), db.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	return database
}

// operatorTable keeps tokens in memory, by their hash.
type operatorTable struct {
	mu     sync.Mutex
	tokens map[string]OperatorToken
	calls  []OperatorCall
}

func (o *operatorTable) AddOperator(_ *db.Tx, t OperatorToken, hash []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tokens[string(hash)] = t
	return nil
}

func (o *operatorTable) Operators(db.Queryer) (out []OperatorToken, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.tokens {
		out = append(out, t)
	}
	return out, nil
}

func (o *operatorTable) Operator(_ db.Queryer, hash []byte) (OperatorToken, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, ok := o.tokens[string(hash)]
	if !ok {
		return t, fault.New(fault.NotFound, "none")
	}
	return t, nil
}

func (o *operatorTable) DropOperator(_ *db.Tx, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for hash, t := range o.tokens {
		if t.Name == name {
			delete(o.tokens, hash)
			return nil
		}
	}
	return fault.New(fault.NotFound, "none")
}

func (o *operatorTable) AddOperatorCall(_ *db.Tx, c OperatorCall) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, c)
	return nil
}

func (o *operatorTable) OperatorCalls(db.Queryer, int, int64) ([]OperatorCall, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls), nil
}

func TestARevokedTokenEndsItsCalls(t *testing.T) {
	started := make(chan struct{})
	table := &operatorTable{tokens: map[string]OperatorToken{}}
	operators := &Operators{DB: openDB(t), Table: table}
	s := newServer(t, Options{Callables: []Callable{waits(0, func() { close(started) })}, Operators: operators})
	token, err := operators.Create(t.Context(), "laptop", []string{"wait"}, "")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-started
		if err := operators.Revoke(context.Background(), "laptop"); err != nil {
			t.Error(err)
		}
	}()
	if code, body := send(s.Handler(), token, "wait", "{}"); code != 499 || !strings.Contains(body, "token_revoked") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := send(s.Handler(), token, "wait", "{}"); code != http.StatusUnauthorized {
		t.Errorf("after it was revoked: %d", code)
	}
	if len(table.calls) != 1 || table.calls[0].Operator != "laptop" || table.calls[0].Outcome != "cancelled" {
		t.Errorf("%+v", table.calls)
	}
	if fault.KindOf(operators.Revoke(t.Context(), "laptop")) != fault.NotFound {
		t.Error("it can be revoked again")
	}
}

func TestATokenNamesWhatItAllows(t *testing.T) {
	table := &operatorTable{tokens: map[string]OperatorToken{}}
	operators := &Operators{DB: openDB(t), Table: table}
	newServer(t, Options{Callables: []Callable{echo("surface.messages.send"), echo("surface.messages.read"), echo("events.publish")}, Operators: operators})
	for name, callables := range map[string][]string{
		"":      {"*"},
		"a b":   {"*"},
		"none":  nil,
		"part":  {"surface.mess*"},
		"upper": {"Surface.*"},
		"many":  slices.Repeat([]string{"a"}, maxPatterns+1),
	} {
		if _, err := operators.Create(t.Context(), name, callables, ""); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q %v: %v", name, callables, err)
		}
	}
	for typo, want := range map[string]string{
		"surface.mesages.send": `no callable "surface.mesages.send". Did you mean surface.messages.send or`,
		"surface":              "Did you mean surface.*?",
		"surfce.*":             "Did you mean surface.*?",
		"events":               "Did you mean events.*?",
		"events.publish.*":     "Did you mean events.publish",
		"surface.messages":     "Did you mean surface.messages.*",
		"workflow.*":           `There is no callable "workflow.*".`,
	} {
		_, err := operators.Create(t.Context(), "typo", []string{"*", typo}, "")
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", typo, err)
		}
	}
	token, err := operators.Create(t.Context(), "good", []string{"*", "surface.*", "surface.messages.*", "events.publish"}, "")
	if err != nil || !strings.HasPrefix(token, operatorPrefix) {
		t.Fatal(token, err)
	}
	for hash := range table.tokens {
		if strings.Contains(hash, token[len(operatorPrefix):]) {
			t.Error("the token itself is kept")
		}
	}
}

func TestWhatATokenDoesNotAllowIsRecordedAndCounted(t *testing.T) {
	var records []Record
	s := newServer(t, Options{Callables: []Callable{echo("a"), echo("b")}, Record: func(_ context.Context, r Record) error {
		records = append(records, r)
		return nil
	}})
	token := mint(t, s, "a")
	for range maxCalls {
		if code, body := send(s.Handler(), token, "b", `{"sessionId":"x"}`); code != http.StatusForbidden {
			t.Fatalf("%d %s", code, body)
		}
	}
	if r := records[0]; r.Callable != "b" || r.Outcome != "denied" || r.SessionID != "x" {
		t.Errorf("%+v", r)
	}
	if code, _ := send(s.Handler(), token, "b", "{}"); code != http.StatusTooManyRequests || len(records) != maxCalls {
		t.Errorf("one call more: %d, %d records", code, len(records))
	}
}

func TestACallThatCannotBeMadeIsRecordedAndCounted(t *testing.T) {
	var records []Record
	c := echoOf[struct {
		SessionID string `json:"sessionId,omitempty"`
		Limit     int    `json:"limit,omitempty"`
	}]("a.read")
	s := newServer(t, Options{Callables: []Callable{c}, Record: func(_ context.Context, r Record) error {
		records = append(records, r)
		return nil
	}})
	token := mint(t, s, "*")
	long := strings.Repeat("x", 10_000)
	for _, one := range []struct {
		id, input            string
		code                 int
		outcome, on, because string
	}{
		{"a.read", `{"session-id":"s7","limit":"many"}`, http.StatusBadRequest, "invalid", "s7", `"limit" must be a whole number, not "many"`},
		{"a.read", `{"` + long + `":1,"sessionId":"` + long + `"}`, http.StatusBadRequest, "invalid", long[:maxNamed-1] + "…", "There is no field"},
		{"a.read", `[]`, http.StatusBadRequest, "invalid", "", "must be a JSON object"},
		{"a.raed", `{"sessionId":"s7"}`, http.StatusNotFound, "not_found", "s7", "Did you mean a.read"},
		{long, `{}`, http.StatusNotFound, "not_found", "", "There is no callable"},
	} {
		if code, body := send(s.Handler(), token, one.id, one.input); code != one.code {
			t.Errorf("%.40s %.40s: %d %.200s", one.id, one.input, code, body)
		}
		r := records[len(records)-1]
		if r.Callable != text.TruncateRunes(one.id, maxNamed) || r.Outcome != one.outcome || r.SessionID != one.on || !strings.Contains(r.Message, one.because) || r.Caller.RequestID != "r" {
			t.Errorf("%.40s %.40s is recorded as %.300v", one.id, one.input, r)
		}
		if len(r.Callable)+len(r.Message)+len(r.SessionID) > 4*maxDetail {
			t.Errorf("the record of %.40s is %d bytes", one.id, len(r.Message))
		}
	}
	for range maxCalls {
		send(s.Handler(), token, "a.read", `{"limit":"many"}`)
	}
	if code, _ := send(s.Handler(), token, "a.read", `{"limit":"many"}`); code != http.StatusTooManyRequests || len(records) != maxCalls {
		t.Errorf("one call more: %d, %d records", code, len(records))
	}
}

func TestATokenEndsWhenItsTimeIsOver(t *testing.T) {
	table := &operatorTable{tokens: map[string]OperatorToken{}}
	operators := &Operators{DB: openDB(t), Table: table}
	s := newServer(t, Options{Callables: []Callable{echo("a"), waits(0, func() {})}, Operators: operators})
	for life, want := range map[string]time.Duration{"": 90 * 24 * time.Hour, "1d12h": 36 * time.Hour, "1m": time.Minute, Forever: 0} {
		name := "t" + life
		token, err := operators.Create(t.Context(), name, []string{"*"}, life)
		if err != nil {
			t.Fatal(err)
		}
		if code, body := send(s.Handler(), token, "a", "{}"); code != http.StatusOK {
			t.Errorf("a token for %q: %d %s", life, code, body)
		}
		for _, made := range table.tokens {
			if made.Name == name && (want == 0) != (made.ExpiresAt == 0) || made.Name == name && want > 0 && made.ExpiresAt-made.CreatedAt != want.Milliseconds() {
				t.Errorf("%q makes %+v", life, made)
			}
		}
	}
	for _, life := range []string{"soon", "0s", "59s", "-1h", "90"} {
		if _, err := operators.Create(t.Context(), "x", []string{"*"}, life); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", life, err)
		}
	}
	token, err := operators.Create(t.Context(), "short", []string{"*"}, "1m")
	if err != nil {
		t.Fatal(err)
	}
	ends := func(at time.Time) {
		table.mu.Lock()
		defer table.mu.Unlock()
		for hash, made := range table.tokens {
			if made.Name == "short" {
				made.ExpiresAt = at.UnixMilli()
				table.tokens[hash] = made
			}
		}
	}
	ends(time.Now().Add(200 * time.Millisecond))
	if code, body := send(s.Handler(), token, "wait", "{}"); code != 499 && code != http.StatusUnauthorized || code == 499 && !strings.Contains(body, "token_expired") {
		t.Errorf("a call that runs when it is over: %d %s", code, body)
	}
	ends(time.Now())
	if code, body := send(s.Handler(), token, "a", "{}"); code != http.StatusUnauthorized || !strings.Contains(body, "token_invalid") {
		t.Errorf("when it is over: %d %s", code, body)
	}
}
