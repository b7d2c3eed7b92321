package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxProgram is the maximum size of a file in an archive, in bytes.
const maxProgram = 200 << 20

// checkArchive checks that an archive contains the files, and a program that runs on its
// platform without anything else.
func checkArchive(r *report, path string, p platform) {
	name := filepath.Base(path)
	read := readTar
	if p.os == "windows" {
		read = readZip
	}
	files, program, err := read(path, p.program())
	if err != nil {
		r.badf("%s cannot be read: %v", name, err)
		return
	}
	for _, want := range inArchives {
		if !files[want] {
			r.badf("%s does not contain %s", name, want)
		}
	}
	if program == nil {
		r.badf("%s does not contain %s", name, p.program())
		return
	}
	if err := checkProgram(program, p); err != nil {
		r.badf("%s: the program %v", name, err)
		return
	}
	r.goodf("%s: %d files, and a program for %s", name, len(files), p)
}

func readTar(path, program string) (files map[string]bool, content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, nil, err
	}
	files = map[string]bool{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, content, nil
		} else if err != nil {
			return nil, nil, err
		}
		files[header.Name] = true
		if header.Name == program {
			if content, err = io.ReadAll(io.LimitReader(archive, maxProgram)); err != nil {
				return nil, nil, err
			}
		}
	}
}

func readZip(path, program string) (files map[string]bool, content []byte, err error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, nil, err
	}
	defer archive.Close()
	files = map[string]bool{}
	for _, f := range archive.File {
		files[f.Name] = true
		if f.Name != program {
			continue
		}
		file, err := f.Open()
		if err != nil {
			return nil, nil, err
		}
		content, err = io.ReadAll(io.LimitReader(file, maxProgram))
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, nil, err
		}
	}
	return files, content, nil
}

// The architectures as the formats of programs name them.
var (
	elfMachines   = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	machoMachines = map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}
	peMachines    = map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}
)

// checkProgram returns the faults of a program, as the rest of a sentence.
func checkProgram(program []byte, p platform) error {
	content := bytes.NewReader(program)
	switch p.os {
	case "linux":
		return checkStatic(content, p.arch)
	case "darwin":
		file, err := macho.NewFile(content)
		if err != nil {
			return fmt.Errorf("is not one of macOS: %w", err)
		}
		if file.Cpu != machoMachines[p.arch] {
			return fmt.Errorf("is for %s, want %s", file.Cpu, p.arch)
		}
	default:
		file, err := pe.NewFile(content)
		if err != nil {
			return fmt.Errorf("is not one of Windows: %w", err)
		}
		if file.Machine != peMachines[p.arch] {
			return fmt.Errorf("is for the machine %#x, want %s", file.Machine, p.arch)
		}
	}
	return nil
}

func checkStatic(content io.ReaderAt, arch string) error {
	file, err := elf.NewFile(content)
	if err != nil {
		return fmt.Errorf("is not one of Linux: %w", err)
	}
	if file.Machine != elfMachines[arch] {
		return fmt.Errorf("is for %s, want %s", file.Machine, arch)
	}
	if libraries, _ := file.ImportedLibraries(); len(libraries) > 0 {
		return fmt.Errorf("is not static: it needs %s", strings.Join(libraries, ", "))
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("is not static: it needs a dynamic linker")
		}
	}
	return nil
}
