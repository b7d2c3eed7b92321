package app

import (
	"context"
	"fmt"
	"path/filepath"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/operate/config"
	"lilac/internal/store"
)

// workspaces decides in which directory the agent works. A request works in the shared
// workspace or in one of its session alone, and its journal records which when it begins, so that
// a change of the configuration does not move the files of work that runs. Everything that a
// request starts (commands, sub-agents, background tasks) works where the request works.
type workspaces struct{ *base }

// openWorkspaces returns the directories of the sessions' own workspaces.
func (b *base) openWorkspaces() (sessionDirs, error) {
	dir := config.WorkspacesDir(b.Config)
	// Other users of the machine must not read the agent's files.
	if err := osfile.MkdirAll(dir, 0o700); err != nil {
		return sessionDirs{}, fmt.Errorf("make the directory of workspaces: %w", err)
	}
	// The sandbox shows a workspace at its real path.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return sessionDirs{}, fmt.Errorf("find the directory of workspaces: %w", err)
	}
	return sessionDirs{dir}, nil
}

// dir returns the directory of a session's own workspace, which need not exist, or the shared one
// for "".
func (w workspaces) dir(sessionID string) string {
	if sessionID == "" {
		return w.Config.Workspace
	}
	return w.workspaces.path(sessionID)
}

// create creates a session's own workspace. Most conversations never need theirs. The shared one
// is created at the start; one that disappears later is missed, and not replaced by an empty one.
func (w workspaces) create(sessionID string) error {
	if sessionID == "" {
		return nil
	}
	if err := osfile.MkdirAll(w.dir(sessionID), 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The workspace of the conversation cannot be created.")
	}
	return nil
}

// of returns the session in whose own workspace a request that begins works, or "" for the
// shared one. rules are those whose events the request handles.
func (w workspaces) of(q db.Queryer, s session.Session, rules []string) (sessionID string, err error) {
	if task.IsChild(s.ID) {
		t, err := w.store.Tasks.TaskByChild(q, s.ID)
		if err != nil {
			return "", fmt.Errorf("find where a sub-agent works: %w", err)
		}
		return w.ofRequest(q, t.RequestID, t.SessionID)
	}
	cfg := w.now.Load().config
	if config.SharesWorkspace(cfg, models(w).channel(q, cfg, s), rules, s.Workspace) {
		return "", nil
	}
	if s.Branch != nil {
		return s.Branch.FilesOf, nil
	}
	return s.ID, nil
}

// ofRequest returns the session in whose own workspace a request works, or "" for the shared
// one. A request that is unknown, because the operator started a task, works where the next
// request of its session would.
func (w workspaces) ofRequest(q db.Queryer, requestID, sessionID string) (string, error) {
	owner, known, err := store.RuleRuns{}.WorkspaceOf(q, requestID)
	if err != nil || known {
		return owner, err
	}
	return w.ofSession(q, sessionID)
}

// ofSession returns the session in whose own workspace the next request of a session would
// work, or "" for the shared one.
func (w workspaces) ofSession(q db.Queryer, sessionID string, rules ...string) (string, error) {
	s, err := w.store.Sessions.Session(q, sessionID)
	if fault.KindOf(err) == fault.NotFound {
		s, err = session.Session{ID: sessionID}, nil
		if s.Client, _, err = names(w).sessions().ClientOf(q, sessionID); err != nil {
			return "", err
		}
	}
	if err != nil {
		return "", err
	}
	return w.of(q, s, rules)
}

// forEvent returns the directory in which the agent would handle an event of a rule in a session,
// and creates it.
func (w workspaces) forEvent(q db.Queryer, sessionID, rule string) (dir string, err error) {
	owner, err := w.ofSession(q, sessionID, rule)
	if err != nil {
		return "", err
	}
	return w.dir(owner), w.create(owner)
}

// ofTask returns the directory in which a background task works, and creates it.
func (w workspaces) ofTask(ctx context.Context, requestID, sessionID string) (dir string, err error) {
	var owner string
	err = w.db.Read(ctx, func(q db.Queryer) (err error) {
		owner, err = w.ofRequest(q, requestID, sessionID)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("find where a background task works: %w", err)
	}
	return w.dir(owner), w.create(owner)
}
