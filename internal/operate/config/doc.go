// Package config is what an operator can set: the schema, its defaults, where
// a value comes from, and what is refused before anything starts.
//
// [Load] reads flags, the environment and one YAML file; a flag beats the
// environment, the environment beats the file, the file beats the default. A
// mistake in the file is reported with its line and column; a key that nobody
// knows is a [Warning], with the key that was probably meant. A string in the
// file may name environment variables as ${NAME}. What Load returns is valid:
// the paths are absolute and apart from each other, the address is safe to
// listen on, the chosen model can be built and the limits can be kept.
//
// Secrets are of type [Secret] and print as ***. The package imports nothing of
// Lilac but fault, and egress for the form of its rules; docs/configuration.md is generated from it.
package config
