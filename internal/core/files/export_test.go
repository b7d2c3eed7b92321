package files

import "github.com/fsnotify/fsnotify"

// Within is what no pattern leaves.
var Within = isWithin

// Explain explains the error of a new watcher.
var Explain = explain

// OpenWith replaces how watchers are opened.
func (s *Service) OpenWith(open func() (*fsnotify.Watcher, error)) { s.open = open }
