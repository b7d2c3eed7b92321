package damagetest

import (
	"encoding/binary"
	"fmt"
)

// Span is the part of a file from the offset Start, inclusive, to End, exclusive.
type Span struct{ Start, End int }

// The types of b-tree pages in the SQLite file format.
const (
	interiorIndex = 0x02
	interiorTable = 0x05
	leafIndex     = 0x0a
	leafTable     = 0x0d
)

// maxDepth is greater than the depth of any valid b-tree of 4 KB pages. It stops the walk
// if pages form a cycle.
const maxDepth = 20

// Cells returns the spans of the rows of a table in a database file. The write-ahead log
// must have been checkpointed. root is the rootpage of the table in sqlite_master. Each span
// is the part of one row on one page: a row that is too long for its page has more spans, on
// its overflow pages.
func Cells(file []byte, root int) ([]Span, error) {
	if len(file) < 100 {
		return nil, fmt.Errorf("a file of %d bytes is no database", len(file))
	}
	size := int(binary.BigEndian.Uint16(file[16:]))
	if size == 1 {
		size = 65536
	}
	w := &walk{file: file, page: size, usable: size - int(file[20])}
	err := w.tree(root, 0)
	return w.spans, err
}

type walk struct {
	file         []byte
	page, usable int
	spans        []Span
}

func (w *walk) tree(number, depth int) error {
	base := (number - 1) * w.page
	if number < 1 || base+w.page > len(w.file) || depth > maxDepth {
		return fmt.Errorf("page %d is not part of a tree", number)
	}
	head := base
	if number == 1 {
		head += 100
	}
	kind, cells := w.file[head], int(binary.BigEndian.Uint16(w.file[head+3:]))
	pointers := head + 8
	if kind == interiorIndex || kind == interiorTable {
		pointers = head + 12
	}
	for i := range cells {
		at := base + int(binary.BigEndian.Uint16(w.file[pointers+2*i:]))
		if kind == interiorIndex || kind == interiorTable {
			if err := w.tree(int(binary.BigEndian.Uint32(w.file[at:])), depth+1); err != nil {
				return err
			}
			at += 4
		}
		if kind != interiorTable { // interior table pages contain only rowids, no rows
			if err := w.cell(at, kind == leafTable); err != nil {
				return err
			}
		}
	}
	switch kind {
	case interiorIndex, interiorTable:
		return w.tree(int(binary.BigEndian.Uint32(w.file[head+8:])), depth+1)
	case leafIndex, leafTable:
		return nil
	}
	return fmt.Errorf("page %d is of the unknown kind %#x", number, kind)
}

// cell adds the spans of the cell at an offset: its payload size, its rowid if numbered is
// true, and its payload. The formulas for the size of the local payload are from the section
// "B-tree Cell Format" of the SQLite file format.
func (w *walk) cell(at int, numbered bool) error {
	size, n := varint(w.file[at:])
	end := at + n
	most := (w.usable-12)*64/255 - 23
	if numbered {
		_, m := varint(w.file[end:])
		end += m
		most = w.usable - 35
	}
	local := size
	if size > most {
		least := (w.usable-12)*32/255 - 23
		if local = least + (size-least)%(w.usable-4); local > most {
			local = least
		}
	}
	if end += local; end > len(w.file) {
		return fmt.Errorf("the row at byte %d goes beyond the file", at)
	}
	w.spans = append(w.spans, Span{at, end})
	if local == size {
		return nil
	}
	w.spans[len(w.spans)-1].End += 4 // the number of the overflow page
	return w.overflow(int(binary.BigEndian.Uint32(w.file[end:])), size-local)
}

func (w *walk) overflow(number, left int) error {
	for left > 0 {
		base := (number - 1) * w.page
		if number < 1 || base+w.page > len(w.file) {
			return fmt.Errorf("overflow page %d is not in the file", number)
		}
		part := min(left, w.usable-4)
		w.spans = append(w.spans, Span{base + 4, base + 4 + part})
		left -= part
		number = int(binary.BigEndian.Uint32(w.file[base:]))
	}
	return nil
}

func varint(b []byte) (value, size int) {
	for size < 8 {
		value = value<<7 | int(b[size]&0x7f)
		size++
		if b[size-1] < 0x80 {
			return value, size
		}
	}
	return value<<8 | int(b[8]), 9
}
