package db

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Node is a process that uses a database on PostgreSQL: the one that works, or one that waits.
type Node struct {
	// Name identifies the process.
	Name string `json:"name"`
	// Host and PID are those of the process, and Addr is the address that it listens on.
	Host string `json:"host"`
	PID  string `json:"pid"`
	Addr string `json:"addr"`
	// URL is the address at which the other nodes reach it; "" if they do not.
	URL string `json:"url,omitempty"`
	// CPUs is the number of its processors.
	CPUs int `json:"cpus"`
	// Version is that of Lilac.
	Version string `json:"version"`
	// Active reports that the process owns the database; others wait.
	Active bool `json:"active"`
	// Since is the start of the process, and Seen its last signal, in Unix milliseconds of the
	// clock of the database.
	Since int64 `json:"since"`
	Seen  int64 `json:"seen"`
	// SilentMS is the time since then.
	SilentMS int64 `json:"silentMs"`
	// Trouble says why the process runs no commands for the active one, or why the others do not reach
	// the active one; or is "".
	Trouble string `json:"trouble,omitempty"`
}

const (
	// nodeSignal is the interval at which a process says that it is there, or a fifth of a shorter
	// lease. nodeGone is the time without a word after which it counts as gone.
	nodeSignal = 2 * time.Second
	nodeGone   = 15 * time.Second
)

const millisNow = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// signal says that this process is there. People read it, and the active process gives no commands
// to one that is silent. Nothing else depends on it, so that an error only delays it.
func (l *Lease) signal(ctx context.Context) {
	if time.Since(l.signalled) < min(nodeSignal, l.opt.Duration/5) {
		return
	}
	l.signalled = time.Now()
	_, err := l.ask(ctx, `INSERT INTO nodes (name, addr, version, url, cpus, since, seen) VALUES ($1, $2, $3, $4, $5, `+millisNow+`, `+millisNow+`)
		ON CONFLICT (name) DO UPDATE SET seen = excluded.seen`, l.holder, l.opt.Addr, l.opt.Version, l.opt.NodeURL, strconv.Itoa(runtime.GOMAXPROCS(0)))
	if err == nil {
		_, err = l.ask(ctx, fmt.Sprintf(`DELETE FROM nodes WHERE seen < %s - %d`, millisNow, nodeGone.Milliseconds()))
	}
	if err != nil && ctx.Err() == nil {
		l.opt.Logger.Debug("cannot say in the database that this process is there", "error", postgresFault(err))
	}
}

// leave says that this process has ended. Without it, the process counts as gone a little later.
func (l *Lease) leave() {
	if _, err := l.ask(context.Background(), `DELETE FROM nodes WHERE name = $1`, l.holder); err != nil {
		l.opt.Logger.Debug("cannot say in the database that this process ends", "error", postgresFault(err))
	}
}

// Nodes returns the processes that use a database on PostgreSQL, the active one first. Only they
// have the table.
func Nodes(q Queryer) (out []Node, err error) {
	rows, err := q.Query(`SELECT name, addr, url, cpus, version, since, seen, ` + millisNow + ` - seen, CASE WHEN name = (SELECT holder FROM leases WHERE name = 'writer') THEN 1 ELSE 0 END AS active
		FROM nodes ORDER BY active DESC, since, name`)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var n Node
		var active int64
		if err := rows.Scan(&n.Name, &n.Addr, &n.URL, &n.CPUs, &n.Version, &n.Since, &n.Seen, &n.SilentMS, &active); err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		n.Host, n.PID, _ = strings.Cut(n.Name, "/")
		n.PID, _, _ = strings.Cut(n.PID, "/")
		n.Active = active == 1
		out = append(out, n)
	}
	return out, rows.Err()
}
