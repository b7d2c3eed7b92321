// Package config defines what operators can set: the schema, the defaults, the source of each
// value, and the checks that run before anything starts.
//
// [Load] reads flags, the environment, and one YAML file. Flags override the environment, which
// overrides the file, which overrides the defaults. Load reports a mistake in the file with its
// line and column. An unknown key is a [Warning], which suggests a similar key. A string in the
// file may refer to environment variables as ${NAME}. A configuration that Load returns is valid:
// its paths are absolute and do not overlap, the address is safe to listen on, the chosen model
// can be used, and the limits can be enforced.
//
// Each part of Lilac declares its own settings, with their defaults and checks, in a struct beside
// its code (such as task.Config); [Config] assembles them. This package holds the settings that
// several parts use, and those of parts that it may not import.
//
// Secrets have the type [Secret] and print as ***. docs/configuration.md is generated from this
// package.
package config
