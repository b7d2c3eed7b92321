package tool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"lilac/internal/foundation/order"
)

// OutputDir is the directory in a workspace for outputs that do not fit into a result.
const OutputDir = ".lilac/output"

// maxSameCall bounds the files of one call id: some providers repeat ids.
const maxSameCall = 100

// openSpill creates the overflow file of a call. The model controls the workspace, so
// nothing in it is trusted: os.Root refuses links that lead out of it.
func openSpill(workspace, callID string, limits Limits) (*spill, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	s, err := createSpill(root, callID, limits)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

func createSpill(root *os.Root, callID string, limits Limits) (*spill, error) {
	if err := root.MkdirAll(OutputDir, 0o755); err != nil {
		return nil, fmt.Errorf("make output directory: %w", err)
	}
	if err := prune(root, limits.Files-1); err != nil {
		return nil, err
	}
	stem := fileStem(callID)
	for i := 1; i <= maxSameCall; i++ {
		name := path.Join(OutputDir, stem+".txt")
		if i > 1 {
			name = path.Join(OutputDir, fmt.Sprintf("%s-%d.txt", stem, i))
		}
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			return &spill{root: root, file: file, name: name, limit: int64(limits.FileBytes)}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("create output file: %w", err)
		}
	}
	return nil, fmt.Errorf("create output file: %d files for call %q", maxSameCall, stem)
}

// Keep writes data that does not fit into a message to the file of a call, and returns
// its name within the workspace. Repeating it has no further effect.
func Keep(workspace, callID string, data []byte) (name string, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", fmt.Errorf("open workspace: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.MkdirAll(OutputDir, 0o755); err != nil {
		return "", fmt.Errorf("make output directory: %w", err)
	}
	if err := prune(root, MaxFiles-1); err != nil {
		return "", err
	}
	name = path.Join(OutputDir, fileStem(callID)+".txt")
	// Created anew, because the name may belong to a pipe that nobody reads.
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("remove old output: %w", err)
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", fmt.Errorf("create output file: %w", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write output file: %w", err)
	}
	return name, nil
}

// prune removes the oldest overflow files until at most keep are left.
func prune(root *os.Root, keep int) error {
	dir, err := root.Open(OutputDir)
	if err != nil {
		return fmt.Errorf("open output directory: %w", err)
	}
	entries, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("list output directory: %w", err)
	}
	var files []fs.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && !info.IsDir() && strings.HasSuffix(info.Name(), ".txt") {
			files = append(files, info)
		}
	}
	order.By(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for len(files) > max(keep, 0) {
		if err := root.Remove(path.Join(OutputDir, files[0].Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old output: %w", err)
		}
		files = files[1:]
	}
	return nil
}

// fileStem turns a call id, which a provider may choose freely, into a file name.
// Different ids have different names.
func fileStem(callID string) string {
	const longest = 64
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, callID)
	if safe == callID && safe != "" && len(safe) <= longest {
		return safe
	}
	sum := sha256.Sum256([]byte(callID))
	return safe[:min(len(safe), longest-9)] + "-" + hex.EncodeToString(sum[:4])
}
