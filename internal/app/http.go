package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"lilac/internal/httpapi"
	"lilac/internal/webui"
)

func (p *program) serveHTTP() {
	streams, stop := context.WithCancel(context.Background())
	p.stopping = stop
	p.server = &http.Server{
		Handler: onAnswer(httpapi.New(httpapi.Options{
			DB: p.db, Bus: p.bus, Store: p.store, Blobs: p.blobs,
			FileBytes: int64(p.Config.Attachments.MaxBytes), TotalBytes: int64(p.Config.Attachments.MaxTotal),
			Token: p.token, Hosts: p.hosts, Addr: p.listener.Addr().String(),
			Logins: p.logins, Page: webui.Handler(), Version: p.Version,
			Health: p.report, Metrics: p.registry, MetricsToken: p.Config.MetricsToken.Reveal(), Trace: p.observer.HTTP,
			Settings: p.settings, Rules: &httpapi.Rules{InForce: p.env.Rules, Records: p.store}, Tasks: p.tasks, Workflows: p.workflows, Operators: p.operators,
			Sources: p.httpSources(),
			Logger:  p.Logger, Now: time.Now,
		})),
		ReadHeaderTimeout: headerLimit,
		BaseContext:       func(net.Listener) context.Context { return streams },
		ErrorLog:          slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
	}
}

// settings are what the page shows of the configuration.
func (p *program) settings() []httpapi.Setting {
	inForce := p.now.Load().config.InForce()
	out := make([]httpapi.Setting, len(inForce))
	for i, s := range inForce {
		out[i] = httpapi.Setting(s)
	}
	return out
}
