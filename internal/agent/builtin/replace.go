package builtin

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"lilac/internal/foundation/fault"
)

// maxFileBytes bounds a file that is written, edited or searched as a whole.
const maxFileBytes = 10 << 20

// readWhole reads a plain file of at most maxFileBytes.
func readWhole(ctx context.Context, root *os.Root, rel string) ([]byte, fs.FileInfo, error) {
	file, info, err := openPlain(root, rel)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	if info.IsDir() {
		return nil, nil, fault.New(fault.Invalid, "%s is a directory.", rel)
	}
	if info.Size() > maxFileBytes {
		return nil, nil, fault.New(fault.TooLarge, "%s is too large (%d bytes, the limit is %d).", rel, info.Size(), maxFileBytes)
	}
	data, err := io.ReadAll(io.LimitReader(&ctxReader{ctx, file}, maxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxFileBytes {
		return nil, nil, fault.New(fault.TooLarge, "%s is too large (the limit is %d bytes).", rel, maxFileBytes)
	}
	return data, info, nil
}

// ctxReader ends with its context.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// isBinary judges by the beginning, as grep and git do.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0
}

// replaceFile makes content the content of rel, in one step: a reader sees the
// old file or the new one. rel must not end in a link.
func replaceFile(ctx context.Context, root *os.Root, rel string, content []byte, mode fs.FileMode) (err error) {
	temp := path.Join(path.Dir(rel), ".lilac-"+rand.Text()+".tmp")
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(temp))
		}
	}()
	_, err = file.Write(content)
	if err == nil && mode.Perm()&^0o644 != 0 {
		err = file.Chmod(mode.Perm()) // an existing file's mode is kept whatever the umask is
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write new content: %w", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return root.Rename(temp, rel)
}
