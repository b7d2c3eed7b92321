package builtin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
	"lilac/internal/foundation/text"
)

//go:embed read.md
var readText string

// The limits of read.
const (
	readLines   = 2000 // when the call does not say
	readMaxLine = 2000 // bytes shown of one line
	readEntries = 1000 // entries shown of a directory
	sniffBytes  = 8 << 10
)

func newRead(ws *workspace, keep func(ctx context.Context, data []byte) (ref string, err error)) tool.Tool {
	return define(
		tool.Spec{Name: "read", Description: readText, Idempotent: true, ParallelSafe: true},
		func(in readInput) string { return in.Path }, func(ctx context.Context, call tool.Call, in readInput) (tool.Result, error) {
			return ws.in(call.Workspace).read(ctx, in, keep)
		})
}

type readInput struct {
	Path string `json:"path" blank:"no" jsonschema:"The file or directory: absolute, or relative to the workspace."`
	// Models also ask for offset 0, which means the first line.
	Offset int `json:"offset,omitempty" min:"0" jsonschema:"The first line to show; 1 when left out."`
	Limit  int `json:"limit,omitempty" min:"1" max:"2000" jsonschema:"How many lines to show; 2000 when left out."`
}

func (w *workspace) read(ctx context.Context, in readInput, keep func(ctx context.Context, data []byte) (ref string, err error)) (tool.Result, error) {
	name := in.Path
	rel, err := w.rel(name)
	if err != nil {
		return tool.Result{}, err
	}
	root, err := w.open()
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = root.Close() }()
	file, info, err := openPlain(root, rel)
	if err != nil {
		return tool.Result{}, w.explain(err, name)
	}
	defer func() { _ = file.Close() }()
	var text string
	if keep != nil && !info.IsDir() {
		if shown, ok, err := showPicture(ctx, file, info, rel, keep); ok || err != nil {
			return shown, w.explain(err, name)
		}
	}
	if info.IsDir() {
		text, err = listDir(file, rel)
	} else {
		text, err = readLinesOf(ctx, file, info, rel, max(in.Offset, 1), cmp.Or(in.Limit, readLines))
	}
	return tool.Result{Text: text}, w.explain(err, name)
}

// maxPicture bounds a picture that is shown to the model, in bytes. Providers accept about as
// much.
const maxPicture = 4 << 20

// pictureTypes are the types of pictures that models see.
var pictureTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// showPicture returns the picture in a file for the model; ok is false if it is none, or too
// large. The file is then read from its beginning.
func showPicture(ctx context.Context, file *os.File, info fs.FileInfo, rel string, keep func(ctx context.Context, data []byte) (ref string, err error)) (out tool.Result, ok bool, err error) {
	head := make([]byte, sniffBytes)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return out, false, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return out, false, err
	}
	kind := http.DetectContentType(head[:n])
	if !slices.Contains(pictureTypes, kind) || info.Size() > maxPicture {
		return out, false, nil
	}
	data, err := io.ReadAll(io.LimitReader(&ctxReader{ctx, file}, maxPicture))
	if err != nil {
		return out, false, err
	}
	ref, err := keep(ctx, data)
	if err != nil {
		return out, false, err
	}
	return tool.Result{Text: fmt.Sprintf("%s is a picture (%s, %d bytes).", rel, kind, len(data)), Pictures: []chat.Part{chat.ResultImage(ref, kind)}}, true, nil
}

// readLinesOf returns numbered lines of a file. It holds at most one line in memory.
func readLinesOf(ctx context.Context, file *os.File, info fs.FileInfo, rel string, offset, limit int) (string, error) {
	r := bufio.NewReaderSize(&ctxReader{ctx, file}, sniffBytes)
	start, err := r.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if isBinary(start) {
		return "", fault.New(fault.Invalid, "%s is not text: %s, %d bytes. Use bash to look into it.", rel, http.DetectContentType(start), info.Size())
	}
	var b strings.Builder
	for number := 1; ; number++ {
		line, length, err := readLine(r, number >= offset)
		if errors.Is(err, io.EOF) {
			return finish(&b, rel, number-1, offset), nil
		}
		if err != nil {
			return "", err
		}
		if number < offset {
			continue
		}
		if number >= offset+limit || b.Len() > tool.MaxBytes-readMaxLine {
			fmt.Fprintf(&b, "\n[there is more: read on with offset %d; the file has %d bytes]", number, info.Size())
			return b.String(), nil
		}
		fmt.Fprintf(&b, "%6d\t%s", number, tool.Visible(line))
		if length > len(line) {
			fmt.Fprintf(&b, " [… %d more bytes in this line]", length-len(line))
		}
		b.WriteByte('\n')
	}
}

func finish(b *strings.Builder, rel string, lines, offset int) string {
	switch {
	case lines == 0:
		return fmt.Sprintf("[%s is empty]", rel)
	case b.Len() == 0:
		return fmt.Sprintf("[%s has only %s; offset %d is after its end]", rel, text.Count(lines, "line"), offset)
	}
	return b.String()
}

// readLine reads a line of any length. It returns the beginning without the line end,
// and the length of the whole line.
func readLine(r *bufio.Reader, keep bool) (line string, length int, err error) {
	var kept []byte
	var last byte
	for {
		piece, err := r.ReadSlice('\n')
		if len(piece) > 0 {
			last = piece[len(piece)-1]
		}
		length += len(piece)
		if keep && len(kept) < readMaxLine {
			kept = append(kept, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !(errors.Is(err, io.EOF) && length > 0) {
			return "", 0, err
		}
		break
	}
	if last == '\n' {
		length--
		kept = bytes.TrimSuffix(kept, []byte{'\n'})
		if bytes.HasSuffix(kept, []byte{'\r'}) {
			length--
			kept = kept[:len(kept)-1]
		}
	}
	return string(text.Truncate(kept, readMaxLine)), length, nil
}

func listDir(dir *os.File, rel string) (string, error) {
	entries, err := dir.ReadDir(readEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	more := len(entries) > readEntries
	entries = entries[:min(len(entries), readEntries)]
	order.By(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s is a directory:\n", rel)
	for _, e := range entries {
		mark := ""
		switch {
		case e.IsDir():
			mark = "/"
		case e.Type()&fs.ModeSymlink != 0:
			mark = "@"
		case !e.Type().IsRegular():
			mark = " (special file)"
		}
		fmt.Fprintf(&b, "%s%s\n", tool.Line(e.Name(), 255), mark)
	}
	switch {
	case more:
		fmt.Fprintf(&b, "[only %d entries are shown; use glob to find what you need]\n", readEntries)
	case len(entries) == 0:
		b.WriteString("[it is empty]\n")
	}
	return b.String(), nil
}
