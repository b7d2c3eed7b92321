package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/core/compose"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/store"
	"lilac/internal/telemetry/health"
)

const (
	// sentPage and maxSentPages limit how far back the history is searched for files.
	sentPage     = 100
	maxSentPages = 10
)

// attachments connects the file tools of the agent to the stores and the platforms.
type attachments struct{ *base }

// openBlobs opens the blob store with a size limit for the largest file that may be received
// or sent.
func openBlobs(c *config.Config) (*store.Blobs, error) {
	bucket, err := config.BlobsBucket(c)
	if err != nil {
		return nil, err
	}
	blobs, err := store.OpenBlobs(config.BlobsDir(c), bucket, max(store.DefaultMaxBlob, int64(c.Attachments.MaxBytes), int64(c.Surface.Discord.Attachments.MaxBytes)))
	if err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	return blobs, nil
}

// warnOfLostDatabase logs a warning if the start is about to create a database although there
// are stored files, because the old database is then probably lost.
func (b *base) warnOfLostDatabase() {
	info, err := os.Stat(filepath.Join(b.Config.DataDir, db.FileName))
	if b.Config.Database.URL.Postgres() {
		if err == nil && info.Size() > 0 {
			b.Logger.Warn("the data directory also has a database of SQLite, which is not used: database.url selects PostgreSQL. To move its data, stop the server and run: lilac migrate --to URL", "data", b.Config.DataDir)
		}
		return
	}
	if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if _, err := os.Stat(filepath.Join(b.Config.DataDir, "blobs")); err == nil {
		b.Logger.Warn("the database is missing or empty, although there are stored files; Lilac creates a new, empty database", "data", b.Config.DataDir)
	}
}

// sentFiles stores the files that people on a platform send, as long as the disk has enough
// space. Every person there could otherwise fill the disk, which the database also needs.
type sentFiles struct {
	*store.Blobs
	dir    string
	diskAt func(path string) (health.Disk, error)
}

// Put stores a file. It returns an error if the file would leave less free space than the
// threshold of the health warning.
func (s sentFiles) Put(ctx context.Context, data []byte) (ref string, err error) {
	disk, err := s.diskAt(s.dir)
	if err != nil {
		return "", err
	}
	if disk.Free < health.LowDisk+uint64(len(data)) {
		return "", fault.New(fault.Unavailable, "the disk has only %d MiB free, and files that people send leave %d MiB", disk.Free>>20, health.LowDisk>>20)
	}
	return s.Blobs.Put(ctx, data)
}

// tool returns the attachments for the tools of the agent.
func (a attachments) tool() (*builtin.Attachments, error) {
	set := a.Config.Attachments
	return builtin.NewAttachments(builtin.AttachOptions{
		Workspace: a.Config.Workspace, HandOver: a.give, Inbound: a.inbound, Fetch: a.fetch,
		FileBytes: int64(set.MaxBytes), TotalBytes: int64(set.MaxTotal),
	})
}

// adoptAgain is the delay after a failed attempt to copy files.
const adoptAgain = time.Minute

// adoptFiles copies the files of the data directory to where files are stored now, until it has
// succeeded.
func (b *base) adoptFiles(ctx context.Context) error {
	for {
		copied, err := b.blobs.Adopt(ctx, store.BlobsDir(b.Config.DataDir))
		if err == nil {
			if copied > 0 {
				b.Logger.Info("files of the data directory were copied to attachments.store", "files", copied)
			}
			return nil
		}
		if ctx.Err() == nil {
			b.Logger.Error("cannot copy files of the data directory to attachments.store; other processes do not have them until that succeeds", "copied", copied, "error", fault.ToWire(err).Message)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(adoptAgain):
		}
	}
}

// sweep deletes files that nothing references anymore.
func (c cleaner) sweep(ctx context.Context) {
	keep := time.Duration(c.Config.Attachments.Keep)
	swept, err := c.blobs.Sweep(ctx, time.Now(), keep, func(names []string) (out map[string]bool, err error) {
		err = c.db.Read(ctx, func(q db.Queryer) (err error) {
			out, err = c.store.Files.Referenced(q, names)
			return err
		})
		return out, err
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.Logger.Warn("cannot delete unreferenced files", "error", err)
	case swept.Removed > 0:
		c.Logger.Info("unreferenced files were deleted", "files", swept.Removed, "bytes", swept.Bytes)
	}
}

// give stores a file and asks the runner to publish it, because only the runner writes to the
// output.
func (a attachments) give(ctx context.Context, call tool.Call, f builtin.File) error {
	if call.Client == task.Client {
		return fault.New(fault.Denied, "Nobody reads the output of a background task. Say where the file is; whoever started the task can give it.")
	}
	ref, err := a.blobs.Put(ctx, f.Data)
	if err != nil {
		return err
	}
	return a.runner.AddFile(ctx, call.RequestID, event.BinaryOutput{
		BinaryID: f.ID, MimeType: f.MimeType, Filename: f.Name, Blob: ref, Bytes: int64(len(f.Data)), Path: f.Path,
	})
}

// inbound returns the files of the newest message in the history that a person sent with
// files.
func (a attachments) inbound(ctx context.Context, call tool.Call) (out []builtin.Sent, err error) {
	err = a.db.Read(ctx, func(q db.Queryer) error {
		before := ""
		for range maxSentPages {
			page, err := a.store.History.Messages(q, call.SessionID, sentPage, before)
			if err != nil || len(page) == 0 {
				return err
			}
			for i := len(page) - 1; i >= 0; i-- {
				if out, err = a.sentWith(q, call, page[i]); err != nil || len(out) > 0 {
					return err
				}
			}
			before = page[0].ID
		}
		return nil
	})
	return out, err
}

// sentWith returns the files of a message. For the web page and the API, those are stored with
// the message; on a platform, they are in the cache entry of the platform message. The text
// of a message never refers to files, because anyone could write such text.
func (a attachments) sentWith(q db.Queryer, call tool.Call, m session.HistoryMessage) (out []builtin.Sent, err error) {
	if m.Message.Role != chat.User {
		return nil, nil
	}
	if len(compose.Attachments(m.Message)) > 0 {
		said, err := store.SurfaceCache{}.Message(q, call.Client, call.SessionID, compose.MessageID(m.Message))
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		for _, f := range said.Attachments {
			out = append(out, builtin.Sent{URL: f.URL, Blob: f.Blob, Filename: f.Filename, MimeType: f.MimeType})
		}
		return out, nil
	}
	for _, p := range m.Message.Parts {
		if ref, ok := blobOf(p); ok {
			out = append(out, builtin.Sent{Blob: ref, Filename: p.Filename, MimeType: p.MediaType})
		}
	}
	return out, nil
}

func blobOf(p chat.Part) (ref string, ok bool) {
	return ref, (p.Type == chat.TypeFile || p.Type == chat.TypeImage) && json.Unmarshal(p.Data, &ref) == nil && strings.HasPrefix(ref, store.BlobPrefix)
}

// fetch returns the stored content of a file, or else downloads it from the platform.
func (a attachments) fetch(ctx context.Context, call tool.Call, s builtin.Sent, most int64) ([]byte, string, error) {
	if s.Blob != "" {
		if size := a.blobs.Size(s.Blob); size > most {
			return nil, "", fault.New(fault.TooLarge, "It has %d bytes, and no files with more than %d are downloaded.", size, most)
		}
		data, err := a.blobs.Get(ctx, s.Blob)
		if err == nil || s.URL == "" {
			return data, s.MimeType, err
		}
	}
	for _, on := range a.platforms {
		if source, ok := on.adapter.(surface.FileSource); ok && on.adapter.Platform() == call.Client {
			got, err := source.FetchFile(ctx, surface.Attachment{URL: s.URL, Filename: s.Filename}, most)
			return got.Data, got.MimeType, err
		}
	}
	return nil, "", fault.New(fault.Unavailable, "The platform of the file is not connected.")
}
