package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/oklog/ulid/v2"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// rescanInterval is the interval of the checks of the fixed directories: if a parent
	// is moved away, no watch reports it.
	rescanInterval = time.Minute
	// retryPause is the pause before a change that could not be saved is retried.
	retryPause = time.Second
)

// Service watches files.
type Service struct {
	o       Options
	sources atomic.Pointer[[]Source]
	// wakeup wakes Run. It holds one signal, because a second would add nothing.
	wakeup chan struct{}
	open   func() (*fsnotify.Watcher, error)
}

// New returns a service that watches nothing.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{o: o, wakeup: make(chan struct{}, 1), open: NewWatcher}
	s.sources.Store(&[]Source{})
	return s
}

// Set replaces the sources. Setting equal sources changes nothing.
func (s *Service) Set(sources []Source) {
	if reflect.DeepEqual(sources, *s.sources.Load()) {
		return
	}
	sources = slices.Clone(sources)
	s.sources.Store(&sources)
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var watched []*sourceFiles // in the last round
	for ctx.Err() == nil {
		select { // this round uses the newest sources
		case <-s.wakeup:
		default:
		}
		sources := *s.sources.Load()
		err := s.removeOldSources(ctx, sources)
		if err == nil && len(sources) == 0 {
			watched = nil
			select {
			case <-ctx.Done():
			case <-s.wakeup:
			}
			continue
		}
		if err == nil {
			watched, err = s.watch(ctx, sources, watched)
		}
		if err != nil && ctx.Err() == nil {
			for _, src := range sources {
				s.o.Intake.SetTrouble(src.id(), "files cannot be watched: "+fault.Plain(err))
			}
			s.o.Logger.ErrorContext(ctx, "cannot watch files", "error", err)
			select {
			case <-ctx.Done():
			case <-s.wakeup:
			case <-time.After(rescanInterval):
			}
		}
	}
	return nil
}

// removeOldSources removes the known files of sources that do not exist any more.
func (s *Service) removeOldSources(ctx context.Context, sources []Source) error {
	var names []string
	for _, src := range sources {
		if !src.SkipMissed {
			names = append(names, src.Name)
		}
	}
	return s.o.DB.Update(ctx, func(tx *db.Tx) error { return s.o.Known.KeepSources(tx, names) })
}

// watch watches the sources until they are replaced or ctx ends, and returns their state.
// A source that is equal to one before keeps its state.
func (s *Service) watch(ctx context.Context, sources []Source, before []*sourceFiles) ([]*sourceFiles, error) {
	watcher, err := s.open()
	if err != nil {
		return nil, err
	}
	defer watcher.Close()
	t := newTree(watcher, s.o, sources, before)
	for _, b := range t.sources {
		if err := s.loadKnown(ctx, b); err != nil {
			return nil, err
		}
	}
	t.scan(false)
	for _, b := range t.sources {
		if err := s.saveKnown(ctx, b); err != nil {
			return nil, err
		}
	}
	ticker := time.NewTicker(rescanInterval)
	defer ticker.Stop()
	rest := time.NewTimer(time.Hour)
	defer rest.Stop()
	for {
		if due := t.due(); due.IsZero() {
			rest.Stop()
		} else {
			rest.Reset(time.Until(due))
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-s.wakeup:
			return t.sources, nil
		case e, ok := <-watcher.Events:
			if !ok {
				return nil, errors.New("the watcher ended")
			}
			t.handle(e)
		case err := <-watcher.Errors:
			// The watcher has lost events, so compare with the files that exist now.
			s.o.Logger.WarnContext(ctx, "the watcher lost changes of files", "error", err)
			for _, src := range sources {
				s.o.Intake.Drop(src.id(), 1)
			}
			t.scan(true)
		case <-ticker.C:
			t.recheck()
		case <-rest.C:
			s.publishSettled(ctx, t)
		}
	}
}

// publishSettled publishes the changes of the files that are stable.
func (s *Service) publishSettled(ctx context.Context, t *tree) {
	for _, b := range t.sources {
		for _, r := range b.pending.Settled(time.Now()) {
			info := t.lstat(b, r.Path)
			_, known := b.known[r.Path]
			change, any := ChangeOf(known, info != nil, r.Moved)
			remember, err := s.recordOf(b, r.Path, info), error(nil)
			if any && slices.Contains(b.source.Changes, change) {
				err = s.publish(ctx, b.source, r.Path, change, info, remember)
			} else {
				err = s.o.DB.UpdateRelaxed(ctx, remember)
			}
			if err != nil {
				if ctx.Err() == nil {
					s.o.Logger.WarnContext(ctx, "cannot publish a change of a file; trying again", "source", b.source.Name, "error", err)
				}
				b.pending.Add(r.Path, r.Moved, time.Now().Add(retryPause))
				continue
			}
			b.setKnown(r.Path, info)
		}
	}
}

// Payload is the payload of a file.changed.
type Payload struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Change Change `json:"change"`
	// Size and Modified (Unix milliseconds) are set if the file exists.
	Size     *int64 `json:"size,omitempty"`
	Modified int64  `json:"modified,omitempty"`
}

// publish publishes a change and saves it in one transaction.
func (s *Service) publish(ctx context.Context, src Source, path string, change Change, info os.FileInfo, remember func(*db.Tx) error) error {
	p := Payload{Name: src.Name, Path: path, Change: change}
	if info != nil {
		size := info.Size()
		p.Size, p.Modified = &size, info.ModTime().UnixMilli()
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode change: %w", err)
	}
	_, err = s.o.Intake.Publish(ctx, src.id(), src.Queue, event.EnvEvent{
		ID: "files:" + src.Name + ":" + ulid.Make().String(), Type: event.FileChanged, Payload: raw,
		Metadata: event.EnvMetadata{EnvName: src.Name, Source: "env"},
	}, func(tx *db.Tx) (bool, error) { return true, remember(tx) })
	if fault.KindOf(err) == fault.RateLimited {
		return s.o.DB.UpdateRelaxed(ctx, remember) // the intake has dropped and counted it
	}
	return err
}
