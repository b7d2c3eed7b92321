package app

import (
	"context"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"lilac/internal/serve/httpapi"
	"lilac/internal/serve/webui"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

func (p *program) serveHTTP() {
	stopping, stop := context.WithCancel(context.Background())
	p.stopping = stop
	p.server = clientLimits{header: headerLimit, body: bodyLimit, idle: idleLimit}.server(p.Seams.HTTP.around(httpapi.New(httpapi.Options{
		DB: p.db, Bus: p.bus, BusChanges: p.busChanges, Blobs: p.blobs,
		Tables:    &httpapi.Tables{Inbox: p.store.Inbox, Sessions: p.store.Sessions, Accepted: store.AcceptedMessages{}, History: p.store.History, Requests: p.store.Requests, Files: p.store.Files},
		FileBytes: int64(p.Config.Attachments.MaxBytes), TotalBytes: int64(p.Config.Attachments.MaxTotal),
		Token: p.token, Hosts: p.hosts, TrustedProxies: p.Config.Proxies(), Addr: p.listener.Addr().String(),
		Logins: p.logins, Page: webui.Handler(), Version: p.Version,
		Health: p.report, Metrics: p.registry, MetricsToken: p.Config.MetricsToken.Reveal(), Trace: p.observer.HTTP,
		Settings: p.settings, Rules: &httpapi.Rules{InForce: p.env.Rules, Records: p.store.RuleRuns, Webhook: p.webhookTools, Place: p.namedPlaceGrant}, Tasks: p.tasks, Workflows: p.workflows, Operators: p.operators,
		Sources: p.httpSources(), Stopping: stopping, Platforms: []string{discord.Platform},
		Logger: p.Logger, Now: time.Now,
	})))
	p.server.ErrorLog = slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug)
}

// clientLimits limit how long a client, even without a token, can occupy a connection: until
// the header, the whole request, and the next request arrive.
type clientLimits struct{ header, body, idle time.Duration }

func (l clientLimits) server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: l.header, ReadTimeout: l.body, IdleTimeout: l.idle, MaxHeaderBytes: headerBytes}
}

// maxConnections returns the maximum number of connections. It leaves half of the process's
// file descriptors to the database, commands and platforms.
func maxConnections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return mostConnections
	}
	return int(min(uint64(files.Cur)/2, mostConnections))
}

// settings returns the settings that the web page shows.
func (p *program) settings() []httpapi.Setting {
	inForce := p.now.Load().config.InForce()
	out := make([]httpapi.Setting, len(inForce))
	for i, s := range inForce {
		out[i] = httpapi.Setting(s)
	}
	return out
}
