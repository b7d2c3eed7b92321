// Package setting has the types of the values in the configuration file: durations,
// sizes, secrets, and lists. A part of Lilac declares its settings as a struct of these
// types beside its code, with its defaults and its checks; package config assembles the
// structs.
//
// Values print in the notation of the file, except a [Secret], which prints ***. The
// types have no state and are safe for concurrent use.
package setting
