package remote

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// markName is the name of the file with which the active node marks a directory.
const markName = ".lilac-node"

// Mark is a file that only this run of the active node can have written.
type Mark struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Leave marks directories, which must exist.
func Leave(dirs ...string) (marks []Mark, err error) {
	for _, dir := range dirs {
		m := Mark{Path: filepath.Join(dir, markName), Text: rand.Text()}
		if err := osfile.Replace(m.Path, []byte(m.Text), 0o600); err != nil {
			return nil, fmt.Errorf("mark a directory: %w", err)
		}
		marks = append(marks, m)
	}
	return marks, nil
}

// codeNotShared is the code of the fault of a node that does not see the files of the active one.
const codeNotShared = "files_not_shared"

// see returns an error unless this machine sees the marks.
func see(marks []Mark) error {
	if len(marks) == 0 {
		return fault.New(fault.Invalid, "The order has no marks.")
	}
	for _, m := range marks {
		if filepath.Base(m.Path) != markName {
			return fault.New(fault.Invalid, "The order has a wrong mark.")
		}
		text, err := readMark(m.Path)
		if err != nil || text != m.Text {
			return &fault.Error{Kind: fault.Unavailable, Code: codeNotShared, Err: err, Message: fmt.Sprintf(
				"The directory %s is not the one of the active node. Put it on a file system that all nodes share.", filepath.Dir(m.Path))}
		}
	}
	return nil
}

func readMark(path string) (text string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, 256))
	return string(data), errors.Join(err, f.Close())
}
