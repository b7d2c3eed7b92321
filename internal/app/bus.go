package app

import (
	"context"
	"fmt"
	"log/slog"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/operate/config"
)

// openBus opens the bus engine that the configuration selects.
func openBus(ctx context.Context, c *config.Config, database *db.DB, logger *slog.Logger) (bus.Bus, error) {
	opt := delivery.Options{Logger: logger}
	switching := delivery.Switching{
		Name: sqlitebus.EngineName, End: sqlitebus.End,
		Unfinished: map[string]func(db.Queryer) (int64, error){
			sqlitebus.EngineName: sqlitebus.Unfinished, redisbus.EngineName: redisbus.Unfinished,
		},
	}
	if c.Bus.URL.Redis() {
		switching.Name, switching.End = redisbus.EngineName, redisbus.End
	}
	if err := delivery.Switch(ctx, database, switching); err != nil {
		return nil, err
	}
	if !c.Bus.URL.Redis() {
		b, err := sqlitebus.New(database, opt)
		if err != nil {
			return nil, fmt.Errorf("open the bus: %w", err)
		}
		return b, nil
	}
	password, err := c.Bus.Password()
	if err != nil {
		return nil, err
	}
	ofSentinels, err := c.Bus.SentinelPassword()
	if err != nil {
		return nil, err
	}
	b, err := redisbus.Open(ctx, database, redisbus.Options{
		Options: opt, URL: c.Bus.URL.Reveal(), Password: password.Reveal(), SentinelPassword: ofSentinels.Reveal(), CAFile: c.Bus.CAFile,
		Prefix: c.Bus.Prefix, AcceptLoss: c.Bus.AcceptLoss,
	})
	if err != nil {
		return nil, fmt.Errorf("open the bus: %w", err)
	}
	return b, nil
}
