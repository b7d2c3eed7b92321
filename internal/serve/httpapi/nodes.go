package httpapi

import (
	"fmt"
	"net/http"
	"os"
	"strconv"

	"lilac/internal/engine/db"
)

// nodeList lists the processes that use the database.
type nodeList struct {
	Nodes []db.Node `json:"nodes"`
}

func (o *operations) listNodes(r *http.Request) (out nodeList, err error) {
	if o.nodes != nil {
		out.Nodes, err = o.nodes(r.Context())
		return out, err
	}
	// An SQLite file has only this process.
	host, err := os.Hostname()
	if err != nil {
		return out, fmt.Errorf("find the name of this machine: %w", err)
	}
	out.Nodes = []db.Node{{
		Host: host, PID: strconv.Itoa(os.Getpid()), Addr: o.addr, Version: o.version, Active: true, Since: o.started.UnixMilli(), Seen: o.now().UnixMilli(),
	}}
	return out, nil
}
