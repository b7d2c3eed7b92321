package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

const (
	// LeaseDuration is the duration of a lease without renewal.
	LeaseDuration = 10 * time.Second
	// leaseRenewal is the interval of renewals, leaseRetry that after a failure.
	leaseRenewal = 2 * time.Second
	leaseRetry   = 250 * time.Millisecond
	// leaseMargin is the time before its end at which the owner gives a lease up by its own clock, so
	// that its work has ended when another process takes over.
	leaseMargin = 2 * time.Second
	// leasePoll is the interval at which a waiting process looks whether the lease is free.
	leasePoll = 250 * time.Millisecond
	// leaseAnswer limits the server's time to answer a statement about leases.
	leaseAnswer = 3 * time.Second
)

// CodeLeaseExpired is the code of the fault of a process that could not renew its lease.
const CodeLeaseExpired = "lease_expired"

// LeaseOptions configure [AwaitLease]. URL is required.
type LeaseOptions struct {
	// Dir is the data directory. The lease locks it, if it can: if the owner of the lease had
	// locked the same directory, it has ended.
	Dir string
	// URL is the address of the PostgreSQL database.
	URL    string
	Logger *slog.Logger
	// Migrations are those that this version knows: it does not wait for a database that a
	// newer version wrote.
	Migrations []Migration
	// Waiting is called when the reason for which the process waits changes. It is nil if
	// another process owns the database.
	Waiting func(reason error)
	// NoWait returns an error instead of waiting.
	NoWait bool
	// Addr, NodeURL and Version describe this process to [Nodes]: the address that it listens on, and
	// the one at which other nodes reach it, or "".
	Addr, NodeURL, Version string
	// Around is called while the process waits, with what it knows about the active node. It may
	// be nil.
	Around func(Around)
	// Duration replaces [LeaseDuration] in tests.
	Duration time.Duration
}

// Around describes a process that waits, and the active node.
type Around struct {
	// Name is the name of this process in the list of [Nodes].
	Name string
	// ActiveURL is the address at which the active node is reached; "" if it is not known.
	ActiveURL string
	// DirLocked reports that the process has locked its data directory, so that it may use it.
	DirLocked bool
}

// Lease makes one process the owner of a database on PostgreSQL, for as long as it is
// renewed. It uses a connection of its own. Losing the lease ends the work of its owner
// soon; what the owner still writes is refused by the epoch of the table writers.
//
// A process that has locked the directory that the owner had locked takes over at once: the
// kernel has released that lock with the end of the owner. Other processes wait until the
// lease ends.
//
// The clock of the server decides when a lease ends. The owner gives it up before, by its
// own clock.
type Lease struct {
	opt    LeaseOptions
	engine *postgresEngine
	holder string
	// lock is the lock on the data directory, and locked names it for other processes; ""
	// if there is no lock.
	lock   dirLock
	locked string

	// signalled is the time of the last entry of this process in the table of nodes.
	signalled time.Time

	stop context.CancelFunc
	done chan struct{}
	lost chan struct{}

	mu  sync.Mutex
	err error // why the lease is lost
}

// AwaitLease waits until this process owns the database. It returns an error if waiting
// does not help: the database belongs to another program or to a newer version, or the
// first attempt shows that the URL, the rights, or the version of the server are wrong.
// The caller must call Release.
func AwaitLease(ctx context.Context, opt LeaseOptions) (*Lease, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if opt.Duration == 0 {
		opt.Duration = LeaseDuration
	}
	if err := makeDir(opt.Dir); err != nil {
		return nil, err
	}
	// A renewal need not wait for a synchronous standby: an owner that waits for one
	// remains the owner.
	e := &postgresEngine{url: opt.URL, settings: map[string]string{"synchronous_commit": "local"}}
	e.write = e.newConn(e.dial)
	e.write.timeout = leaseAnswer
	l := &Lease{opt: opt, engine: e, holder: nodeName(), done: make(chan struct{}), lost: make(chan struct{})}
	taken, err := l.await(ctx)
	if err != nil {
		return nil, errors.Join(err, e.close(), l.lock.release())
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.renew(renewing, taken)
	return l, nil
}

// await returns the time before the lease was taken: the server counts from then on.
func (l *Lease) await(ctx context.Context) (taken time.Time, err error) {
	first, said, prepared := true, "-", false
	for {
		taken = time.Now()
		err := l.try(ctx, &prepared)
		var busy *leaseHeld
		switch {
		case err == nil:
			return taken, nil
		case ctx.Err() != nil:
			return taken, ctx.Err()
		case errors.As(err, &busy):
			if err = nil; l.opt.NoWait {
				return taken, &fault.Error{Kind: fault.Conflict, Code: "database_in_use", Message: fmt.Sprintf("The database is in use by the process %s (host/process). Stop it first, or call it with --addr.", busy.node)}
			}
		default:
			if err = postgresFault(err); l.opt.NoWait || endsWaiting(err, first) {
				return taken, err
			}
		}
		first = false
		if l.opt.Around != nil {
			around := Around{Name: l.holder, DirLocked: l.lock.file != nil}
			if busy != nil {
				around.ActiveURL = busy.url
			}
			l.opt.Around(around)
		}
		if reason := waitingFor(busy, err); reason != said {
			said = reason
			l.opt.Logger.Info("standby: waiting for the database", "reason", reason, "error", err)
			if l.opt.Waiting != nil {
				l.opt.Waiting(err)
			}
		}
		if prepared {
			l.signal(ctx)
		}
		select {
		case <-ctx.Done():
			l.leave()
			return taken, ctx.Err()
		case <-time.After(leasePoll):
		}
	}
}

func waitingFor(busy *leaseHeld, err error) string {
	if busy != nil {
		return "another process is active: " + busy.node
	}
	return fault.ToWire(err).Message
}

// endsWaiting reports whether an error does not pass by itself.
func endsWaiting(err error, first bool) bool {
	switch fault.ToWire(err).Code {
	case "database_login", "database_certificate", "database_missing", "database_rights", "database_pooler":
		return first // later, somebody may be about to change it back
	}
	kind := fault.KindOf(err)
	return kind == fault.Conflict || kind == fault.Invalid
}

// leaseHeld says that another process has the lease.
type leaseHeld struct{ node, url string }

func (h *leaseHeld) Error() string { return "the lease belongs to " + h.node }

// try takes the lease if it is free.
func (l *Lease) try(ctx context.Context, prepared *bool) error {
	if !*prepared {
		if err := l.engine.prepare(ctx, l.opt.Migrations); err != nil {
			return err
		}
		*prepared = true
	}
	inUse := l.lockDir()
	if inUse != nil && fault.KindOf(inUse) != fault.Conflict {
		return inUse
	}
	rows, err := l.ask(ctx, `WITH before AS (SELECT holder, coalesce((SELECT url FROM nodes WHERE name = holder), '') AS url FROM leases WHERE name = 'writer'),
		taken AS (UPDATE leases SET holder = $1, locked = $2, until = clock_timestamp() + $3 * interval '1 millisecond'
			WHERE name = 'writer' AND (holder = '' OR until < clock_timestamp() OR locked <> '' AND locked = $2) RETURNING 1)
		SELECT before.holder, (SELECT count(*) FROM taken), before.url FROM before`,
		l.holder, l.locked, strconv.FormatInt(l.opt.Duration.Milliseconds(), 10))
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 3 {
		*prepared = false // the tables were removed
		return errors.New("the table of leases is empty")
	}
	before := string(rows[0][0])
	if string(rows[0][1]) == "0" {
		return &leaseHeld{before, string(rows[0][2])}
	}
	if inUse == nil {
		return nil
	}
	if before == "" { // the owner of the directory is not the former owner of the database
		return errors.Join(inUse, l.giveUp())
	}
	// The process that was the owner of the database hangs. It can write nothing there any
	// more, and removes no files.
	l.opt.Logger.Warn("the process that owned the database before still locks the data directory", "dir", l.opt.Dir)
	return nil
}

// lockDir locks the data directory if it is not locked yet.
func (l *Lease) lockDir() error {
	if l.lock.file != nil {
		return nil
	}
	lock, err := lockDir(l.opt.Dir)
	if err != nil {
		return err
	}
	l.lock = lock
	if l.locked, err = osfile.Identity(lock.file); err != nil {
		return fmt.Errorf("identify the lock of the data directory: %w", err)
	}
	return nil
}

// giveUp ends the lease in the database.
func (l *Lease) giveUp() error {
	_, err := l.ask(context.Background(), `UPDATE leases SET holder = '', until = clock_timestamp() WHERE name = 'writer' AND holder = $1`, l.holder)
	return err
}

// ask runs one statement on the connection of the lease.
func (l *Lease) ask(ctx context.Context, query string, args ...string) ([][][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseAnswer)
	defer cancel()
	if err := l.engine.write.connect(ctx); err != nil {
		return nil, err
	}
	values := make([][]byte, len(args))
	for i, arg := range args {
		values[i] = []byte(arg)
	}
	_ = l.engine.write.server.Conn().SetDeadline(time.Time{}) // the context ends it
	result := l.engine.write.server.ExecParams(ctx, query, values, nil, nil, nil).Read()
	if result.Err != nil && (lost(result.Err) || pgCode(result.Err) == codeReadOnly) {
		l.engine.write.lose()
	}
	return result.Rows, result.Err
}

// renew renews the lease until it is released or lost. sent is when the statement was
// sent that was the last to succeed.
func (l *Lease) renew(ctx context.Context, sent time.Time) {
	defer close(l.done)
	l.signal(ctx) // the other nodes pass requests on to this one
	pause, logged := leaseRenewal, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(pause, l.opt.Duration/5)):
		}
		now := time.Now()
		rows, err := l.ask(ctx, `UPDATE leases SET until = clock_timestamp() + $2 * interval '1 millisecond' WHERE name = 'writer' AND holder = $1 RETURNING 1`,
			l.holder, strconv.FormatInt(l.opt.Duration.Milliseconds(), 10))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && len(rows) == 1:
			if sent, pause = now, leaseRenewal; logged != "" {
				l.opt.Logger.Info("renewed the lease of the database again")
				logged = ""
			}
			l.signal(ctx)
		case err == nil:
			l.lose(&fault.Error{Kind: fault.Unavailable, Code: CodeTakenOver, Message: messageAnotherProcess})
			return
		default:
			err := postgresFault(err)
			if reason := fault.ToWire(err).Message; reason != logged { // it retries several times per second
				l.opt.Logger.Warn("cannot renew the lease of the database", "error", err)
				logged = reason
			}
			pause = leaseRetry
		}
		if time.Since(sent) >= l.opt.Duration-min(leaseMargin, l.opt.Duration/5) {
			l.lose(leaseExpired(time.Since(sent), err))
			return
		}
	}
}

// leaseExpired returns the fault of a process that did not renew its lease for too long. Without an
// error, the renewal succeeded, but too late.
func leaseExpired(late time.Duration, err error) error {
	late = late.Round(100 * time.Millisecond)
	message := fmt.Sprintf("The lease of the database was renewed too late, after %s: this process was suspended, its machine was busy, or PostgreSQL answered slowly.", late)
	if err != nil {
		message = fmt.Sprintf("The lease of the database could not be renewed for %s: %s", late, fault.ToWire(postgresFault(err)).Message)
	}
	return &fault.Error{Kind: fault.Unavailable, Code: CodeLeaseExpired, Err: err, Message: message}
}

func (l *Lease) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.lost)
	}
}

// Lost is closed when another process may own the database.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err returns why the lease is lost, or nil.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Node returns the name of this process in the list of [Nodes].
func (l *Lease) Node() string { return l.holder }

// Release ends the lease, so that a waiting process takes over at once.
func (l *Lease) Release() error {
	l.stop()
	<-l.done
	err := l.lock.release()
	if l.Err() == nil {
		if released := l.giveUp(); released != nil {
			err = errors.Join(err, fmt.Errorf("release the lease of the database: %w", postgresFault(released)))
		}
		l.leave()
	}
	return errors.Join(err, l.engine.close())
}

// prepare inspects the database and creates the tables of ownership if they are missing.
func (e *postgresEngine) prepare(ctx context.Context, known []Migration) error {
	if _, err := e.inspect(ctx, known); err != nil {
		return err
	}
	var missing bool
	if err := (reader{ctx, e.write}).QueryRow("SELECT count(*) = 0 FROM pg_attribute WHERE attrelid = to_regclass('nodes') AND attname = 'cpus'").Scan(&missing); err != nil || !missing {
		return err
	}
	if err := e.write.script(ctx, postgresOwnership); err != nil {
		return fmt.Errorf("create the tables of ownership: %w", err)
	}
	return nil
}
