package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"lilac/internal/fault"
	"lilac/internal/httpapi"
	"lilac/internal/store"
	"lilac/internal/webui"
)

func (p *program) serveHTTP(blobs *store.Blobs) {
	streams, stop := context.WithCancel(context.Background())
	p.stopping = stop
	p.server = &http.Server{
		Handler: onAnswer(httpapi.New(httpapi.Options{
			DB: p.db, Bus: p.bus, Store: p.store, Blobs: blobs,
			Token: p.token, AllowedHosts: p.Config.AllowedHosts, Addr: p.listener.Addr().String(),
			Logins: p.logins, Page: webui.Handler(), Ready: p.healthy, Version: p.Version,
			Settings: p.settings,
			Logger:   p.Logger, Now: time.Now,
		})),
		ReadHeaderTimeout: headerLimit,
		BaseContext:       func(net.Listener) context.Context { return streams },
		ErrorLog:          slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
	}
}

// healthy says why the program cannot do its work now.
func (p *program) healthy(ctx context.Context) error {
	if !p.ready.Load() {
		return fault.New(fault.Unavailable, "Lilac is starting or stopping.")
	}
	return p.bus.Healthy(ctx)
}

// settings are what the page shows of the configuration.
func (p *program) settings() []httpapi.Setting {
	inForce := p.Config.InForce()
	out := make([]httpapi.Setting, len(inForce))
	for i, s := range inForce {
		out[i] = httpapi.Setting(s)
	}
	return out
}
