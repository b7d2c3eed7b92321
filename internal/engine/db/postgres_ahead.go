package db

import (
	"fmt"
	"slices"
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

const (
	// aheadMax bounds the reads that are announced at once.
	aheadMax = 32
	// aheadRows bounds the rows of an announced read that are kept. The result of one with more
	// is dropped, and the read runs again when it follows.
	aheadRows = 10_000
)

// keptRead is an announced read, and its result once the server has answered.
type keptRead struct {
	query    string
	args     []any
	key      string
	answered bool
	rows     postgresRows
}

// announce notes a read that will follow. One that cannot be encoded reports that itself.
func (c *postgresConn) announce(query string, args []any) {
	key, err := readKey(query, args)
	if err != nil || !strings.HasPrefix(query, "SELECT") || len(c.ahead) >= aheadMax || c.kept(key) != nil {
		return
	}
	c.ahead = append(c.ahead, &keptRead{query: query, args: args, key: key})
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
