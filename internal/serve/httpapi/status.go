package httpapi

import (
	"net/http"
	"runtime"
)

// Setting is a setting as it is in force.
type Setting struct {
	// Key is its path in the configuration file, as in "limits.request.steps".
	Key string `json:"key"`
	// Value is what it is; a secret is only said to be set.
	Value string `json:"value"`
	// Source says where the value comes from.
	Source string `json:"source"`
	// Doc says what it is for.
	Doc string `json:"doc,omitempty"`
}

// status tells what runs here since when. What is wrong is in readyz.
func (a *api) status(w http.ResponseWriter, _ *http.Request) error {
	now := a.Now()
	return writeJSON(w, http.StatusOK, struct {
		Version   string `json:"version"`
		Go        string `json:"go"`
		Platform  string `json:"platform"`
		StartedAt int64  `json:"startedAt"`
		UptimeMS  int64  `json:"uptimeMs"`
		Streams   int64  `json:"eventStreams"`
	}{a.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, a.started.UnixMilli(), now.Sub(a.started).Milliseconds(), a.stats.streams.Load()})
}

func (a *api) settings(w http.ResponseWriter, _ *http.Request) error {
	out := struct {
		Settings []Setting `json:"settings"`
	}{[]Setting{}}
	if a.Settings != nil {
		out.Settings = append(out.Settings, a.Settings()...)
	}
	return writeJSON(w, http.StatusOK, out)
}
