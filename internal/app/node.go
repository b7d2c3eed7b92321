package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/connlimit"
	"lilac/internal/serve/httpapi"
	"lilac/internal/store"
	"lilac/internal/telemetry/logs"
	"lilac/internal/telemetry/notify"
)

// migrations are the changes of the tables that this version knows.
func migrations() []db.Migration { return slices.Concat(sqlitebus.Migrations, store.Migrations) }

// runNode runs the program whenever this process owns the database on PostgreSQL, and waits
// as a standby while another process does. It returns nil after a graceful stop.
func runNode(ctx context.Context, o Options) error {
	if o.Secrets == nil {
		o.Secrets = &logs.Secrets{}
	}
	for {
		o.Secrets.Add(o.Config.Secrets()...)
		again, err := runTurn(ctx, o)
		if !again {
			return err
		}
		o.Logger.Error("this process has stopped its work and gives up the database; it waits until it may continue", "error", err)
		if o.Load == nil {
			continue
		}
		if fresh, _, err := o.Load(); err != nil {
			o.Logger.Error("the configuration cannot be read; the one of the start remains in force", "error", err)
		} else {
			o.Config = fresh
		}
	}
}

// runTurn waits for the ownership and runs the program until ctx ends or the ownership is
// lost. In the latter case, another turn may follow.
func runTurn(ctx context.Context, o Options) (again bool, err error) {
	lease, err := awaitLease(ctx, o)
	if err != nil {
		return false, unlessStopped(ctx, err)
	}
	owner, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-lease.Lost():
			end()
		case <-owner.Done():
		}
	}()
	o.lease = lease
	err = runOnce(owner, o)
	end()
	<-ended
	lost := lease.Err()
	if lost == nil && fault.ToWire(err).Code == db.CodeTakenOver {
		lost = err
	}
	err = errors.Join(err, lease.Release())
	if lost != nil && ctx.Err() == nil {
		return true, errors.Join(lost, err)
	}
	return false, err
}

// leaseLost reports whether another process may own the database now.
func (o *Options) leaseLost() bool { return o.lease != nil && o.lease.Err() != nil }

// standby answers HTTP requests while the process waits.
type standby struct {
	server *http.Server
	served chan struct{}
	reason atomic.Pointer[string]
}

const anotherIsActive = "Another process is active; this one takes over when that one ends."

func newStandby(ctx context.Context, o Options) (*standby, error) {
	l, err := listenOn(ctx, o.Config.Addr)
	if err != nil {
		return nil, err
	}
	s := &standby{served: make(chan struct{})}
	s.setReason("The database is being opened.")
	s.server = clientLimits{header: headerLimit, body: bodyLimit, idle: idleLimit}.server(httpapi.Standby(o.Version, func() string { return *s.reason.Load() }))
	s.server.ErrorLog = slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	go func() {
		defer close(s.served)
		_ = s.server.Serve(connlimit.Listener(l, maxConnections())) // ends with close
	}()
	return s, nil
}

func (s *standby) setReason(reason string) { s.reason.Store(&reason) }

func (s *standby) close() error {
	err := s.server.Close()
	<-s.served
	if err != nil {
		return fmt.Errorf("stop HTTP of the standby: %w", err)
	}
	return nil
}

// awaitLease waits until this process owns the database, and answers requests meanwhile.
func awaitLease(ctx context.Context, o Options) (_ *db.Lease, err error) {
	s, err := newStandby(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	alive := make(chan struct{})
	go func() {
		defer close(alive)
		o.keepAlive(waiting)
	}()
	lease, err := db.AwaitLease(ctx, db.LeaseOptions{
		Dir: o.Config.DataDir, URL: o.Config.Database.URL.Reveal(), Logger: o.Logger, Migrations: migrations(), Duration: o.Seams.Lease,
		Addr: o.Config.Addr, Version: o.Version,
		Waiting: func(reason error) {
			message := anotherIsActive
			if reason != nil {
				message = fault.ToWire(reason).Message
			}
			s.setReason(message)
			o.tell(notify.Ready, notify.Status("Standby: "+message))
		},
	})
	stop()
	<-alive
	return lease, err
}

// keepAlive sends keep-alive messages to the service manager while the process waits.
func (o *Options) keepAlive(ctx context.Context) {
	every := o.Manager.Watchdog()
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.tell(notify.Alive)
		}
	}
}
