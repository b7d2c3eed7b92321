package program

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/setting"
)

const (
	// DefaultMaxBytes is the default limit of a line, and MaxBytes the highest limit: the
	// line becomes an event on the bus.
	DefaultMaxBytes = 1 << 20
	MaxBytes        = 4 << 20
	// DefaultQueue is the default limit of unhandled events of a program.
	DefaultQueue = 1000
)

// Config is an entry of the section "sources" of the configuration: a program that
// prints events.
type Config struct {
	Command  setting.Texts             `json:"command,omitempty" jsonschema:"The program and its arguments, as a list; ~/ stands for the home directory. It prints one event per line as JSON and reads acknowledgments; see docs/sources.md. The agent must not be able to write it."`
	Dir      string                    `json:"dir,omitempty" jsonschema:"The working directory of the program. Default: the directory of the configuration file."`
	Env      map[string]setting.Secret `json:"env,omitempty" jsonschema:"Environment variables of the program, in addition to PATH, HOME, LANG, TZ, TMPDIR, and LILAC_SOURCE (the name of the source). It receives no other variables. Prefer ${NAME}, which reads an environment variable, to a secret in the file."`
	MaxBytes setting.Size              `json:"maxBytes,omitempty" jsonschema:"Maximum size of a line, at most 4MiB. Longer lines are refused. Default 1MiB."`
	Queue    int                       `json:"queue,omitempty" jsonschema:"How many of its events may wait to be handled. While as many wait, Lilac does not read the program's output. Default 1000."`
	Tools    grant.Config              `json:"tools,omitempty" jsonschema:"What requests that its events trigger may use, unless the rule that handles the event has an allow list of its own. Default: only reading and the answer."`
}

// Source is a validated program.
type Source struct {
	Name    string
	Command []string
	Dir     string
	// Env holds variables in the form NAME=value, sorted.
	Env []string
	// MaxBytes bounds a line, and Queue the unhandled events.
	MaxBytes int
	Queue    int
}

func (s Source) id() environment.SourceID {
	return environment.SourceID{Kind: environment.SourceProgram, Name: s.Name}
}

// Source compiles the entry with a name. path makes a path absolute, and dir is the default
// working directory. Errors name the fields below field.
func (c Config) Source(field, name, dir string, path func(string) (string, error)) (Source, error) {
	found := []error{c.Tools.Check(field + ".tools")}
	s := Source{Name: name, Dir: dir, MaxBytes: int(c.MaxBytes), Queue: c.Queue}
	if s.MaxBytes == 0 {
		s.MaxBytes = DefaultMaxBytes
	}
	if s.Queue == 0 {
		s.Queue = DefaultQueue
	}
	switch {
	case len(c.Command) == 0 || c.Command[0] == "":
		found = append(found, fault.InvalidField(field+".command", "The source %s has no command. Set the program and its arguments, as in [python3, /etc/lilac/%s.py].", name, name))
	case s.MaxBytes < 0 || s.MaxBytes > MaxBytes:
		found = append(found, fault.InvalidField(field+".maxBytes", "The source %s accepts lines of %d bytes. Use at most 4MiB.", name, s.MaxBytes))
	case s.Queue < 0:
		found = append(found, fault.InvalidField(field+".queue", "The source %s has a negative queue. Use 0 for the default.", name))
	}
	for i, arg := range c.Command {
		if strings.HasPrefix(arg, "~/") {
			var err error
			if arg, err = path(arg); err != nil {
				found = append(found, fault.InField(fmt.Sprintf("%s.command[%d]", field, i), err))
			}
		}
		s.Command = append(s.Command, arg)
	}
	if c.Dir != "" {
		var err error
		if s.Dir, err = path(c.Dir); err != nil {
			found = append(found, fault.InField(field+".dir", err))
		}
	}
	if len(s.Command) > 0 && strings.ContainsRune(s.Command[0], filepath.Separator) && !filepath.IsAbs(s.Command[0]) {
		s.Command[0] = filepath.Join(s.Dir, s.Command[0])
	}
	for key, value := range c.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(value.Reveal(), "\x00") {
			found = append(found, fault.InvalidField(field+".env", "The source %s has an invalid environment variable %q.", name, key))
		}
		s.Env = append(s.Env, key+"="+value.Reveal())
	}
	slices.Sort(s.Env)
	return s, errors.Join(found...)
}
