package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"

	"lilac/internal/foundation/fault"
)

// Keep writes a file into the directory for downloads in a workspace, "" for the configured
// one, and returns its path. The file is named by a hash of its bytes, and is not written again
// if it exists.
func (a *Attachments) Keep(ctx context.Context, workspace string, data []byte, mimeType string) (path string, err error) {
	if int64(len(data)) > a.o.FileBytes {
		return "", fault.New(fault.TooLarge, "It has %d bytes, more than a file may have (%d).", len(data), a.o.FileBytes)
	}
	ws := a.ws.in(workspace)
	rel, err := ws.rel(DefaultDownloadDir)
	if err != nil {
		return "", err
	}
	dir, err := ws.openDir(rel)
	if err != nil {
		return "", ws.explain(err, DefaultDownloadDir)
	}
	defer func() { _ = dir.Close() }()
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	for _, stem := range []string{hash[:sha10], hash} {
		name := stem + extension(plainType(mimeType), "", "")
		there, err := holds(ctx, dir, name, data)
		if errors.Is(err, fs.ErrNotExist) {
			there, err = true, replaceFile(ctx, dir, name, data, 0o644)
		}
		if err == nil && there {
			return filepath.Join(ws.dir, rel, name), nil
		}
		if err != nil && fault.KindOf(err) != fault.Conflict {
			return "", ws.explain(err, DefaultDownloadDir)
		}
	}
	return "", fault.New(fault.Conflict, "Another file is in the way of the file %s.", hash)
}
