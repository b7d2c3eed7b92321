package db

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/lazyregexp"
)

const (
	// aheadMax bounds the reads that are announced at once, and, but for the last ones to be
	// announced, those that travel with a commit.
	aheadMax = 32
	// aheadRows bounds the rows of an announced read that are kept. The result of one with more
	// is dropped, and the read runs again when it follows.
	aheadRows = 10_000
	// carriedFor is how long a transaction may follow the commit with which its reads travelled.
	carriedFor = time.Second
)

// keptRead is an announced read, and its result once the server has answered.
type keptRead struct {
	query    string
	args     []any
	key      string
	answered bool
	rows     postgresRows
	// next is true for a read of the transaction that follows the commit behind which it is sent.
	next bool
}

// newKeptRead returns a read to announce, or nil if it cannot be announced: one that cannot be
// encoded reports that itself.
func newKeptRead(query string, args []any) *keptRead {
	key, err := readKey(query, args)
	if err != nil || !strings.HasPrefix(query, "SELECT") {
		return nil
	}
	return &keptRead{query: query, args: args, key: key}
}

// announce notes a read that will follow.
func (c *postgresConn) announce(query string, args []any) {
	if r := newKeptRead(query, args); r != nil && len(c.ahead) < aheadMax && c.kept(r.key) == nil {
		c.ahead = append(c.ahead, r)
	}
}

// enqueueBehind adds the reads that travel behind a COMMIT.
func (c *postgresConn) enqueueBehind() {
	for _, r := range c.behind {
		if call, err := c.enqueue(r.query, r.args); err == nil { // it could be encoded before
			call.keep, call.behind = r, true
		}
	}
}

// carry keeps the answered reads for the next transaction.
func (c *postgresConn) carry() {
	for _, r := range c.behind {
		if r.next && r.answered {
			c.carried = append(c.carried, r)
		}
	}
	c.behind, c.carriedAt = nil, time.Now()
}

// takeCarried returns the reads that travelled behind the last commit, unless that was long ago:
// a connection that was idle may be lost, and another process may have written.
func (c *postgresConn) takeCarried() (reads []*keptRead) {
	if time.Since(c.carriedAt) < carriedFor {
		reads = c.carried
	}
	c.carried = nil
	return reads
}

func readKey(query string, args []any) (string, error) {
	var b strings.Builder
	b.WriteString(query)
	for _, arg := range args {
		p, err := encodeParameter(arg)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\x00%t %d ", p.value == nil, len(p.value))
		b.Write(p.value)
	}
	return b.String(), nil
}

// kept returns the announced read with a key, or nil.
func (c *postgresConn) kept(key string) *keptRead {
	for _, r := range c.ahead {
		if r.key == key {
			return r
		}
	}
	return nil
}

// read keeps the result of an announced read. The caller ends the result.
func (r *keptRead) read(rows *postgresRows) error {
	kept := postgresRows{names: rows.names, types: rows.types}
	for rows.reader.NextRow() {
		values, err := rows.decode()
		if err != nil {
			return err
		}
		if len(kept.waiting) < aheadRows {
			kept.waiting = append(kept.waiting, values)
			continue
		}
		kept.waiting = nil
		return nil // it stays unanswered
	}
	r.rows, r.answered = kept, true
	return nil
}

// readAhead answers a read that was announced. With the first one, it sends all of them. It
// returns nil if the read was not announced, or its result is not kept.
func (c *postgresConn) readAhead(query string, args []any) (*postgresRows, error) {
	if len(c.ahead) == 0 {
		return nil, nil
	}
	key, err := readKey(query, args)
	if err != nil {
		return nil, nil // the read itself reports it
	}
	found := c.kept(key)
	if found == nil {
		return nil, nil
	}
	if !found.answered {
		for _, r := range c.ahead {
			if r.answered {
				continue
			}
			call, err := c.enqueue(r.query, r.args)
			if err != nil {
				return nil, err
			}
			call.keep = r
		}
		if _, err := c.send(false); err != nil {
			return nil, err
		}
		if !found.answered {
			return nil, nil
		}
	}
	rows := found.rows // of its own, so that the read can follow again
	return &rows, nil
}

// forgetReads drops the announced reads of the tables that a statement changes: they have to see
// the change.
func (c *postgresConn) forgetReads(statement string) {
	if len(c.ahead) == 0 {
		return
	}
	if isSavepoint(statement) {
		c.ahead = nil
		return
	}
	changed := c.tablesIn(statement)
	c.ahead = slices.DeleteFunc(c.ahead, func(r *keptRead) bool {
		return r.answered && slices.ContainsFunc(c.tablesIn(r.query), func(table string) bool { return slices.Contains(changed, table) })
	})
}

var tableName = lazyregexp.New(`(?i)\b(?:FROM|JOIN|INTO|UPDATE)\s+([a-z_]+)`)

// tablesIn returns the names of the tables in a statement.
func (c *postgresConn) tablesIn(statement string) []string {
	if found, ok := c.tables[statement]; ok {
		return found
	}
	var out []string
	for _, m := range tableName().FindAllStringSubmatch(statement, -1) {
		out = append(out, m[1])
	}
	if c.tables == nil || len(c.tables) >= statementsMax {
		c.tables = make(map[string][]string)
	}
	c.tables[statement] = out
	return out
}
