package config

// An EnvVar is an environment variable that Lilac reads.
type EnvVar struct {
	Name string
	// Key is the configuration key that the variable sets; empty if it sets none.
	Key string
	// Doc is the description in the reference.
	Doc string
}

// Environment lists every environment variable that Lilac reads, in the order of the reference.
func Environment() []EnvVar {
	return []EnvVar{
		{"LILAC_CONFIG", "", "The configuration file; by default `~/.lilac/config.yaml`, if there is one."},
		{"LILAC_ADDR", "addr", "The address to listen on; for the other commands, where the server is."},
		{"LILAC_DATA_DIR", "dataDir", "The data directory."},
		{"LILAC_WORKSPACE", "workspace", "The directory that conversations with a shared workspace work in."},
		{"LILAC_OWN_WORKSPACES", "workspaces.dir", "The directory of the conversations' own workspaces; by default `workspaces` in the data directory."},
		{"LILAC_HOMES", "workspaces.homes", "The directory of the home directories of commands; by default `homes` in the data directory."},
		{"LILAC_MEMORY", "memory.dir", "The directory of the agent's notes; by default `memory` in the data directory."},
		{"LILAC_DB_URL", "database.url", "The database: `sqlite:`, or `postgres://user:password@host:5432/name`."},
		{"LILAC_NODE_URL", "node.url", "The address at which the other nodes on the same database reach this one, such as `http://10.0.0.5:7420`."},
		{"LILAC_BUS_URL", "bus.url", "A Redis server beside the database: `redis://user:password@host:6379/0`."},
		{"LILAC_BLOBS", "attachments.store", "Where files are stored: a directory, or `s3://BUCKET/PREFIX?region=…`."},
		{"LILAC_MODEL", "model", "The model, as `provider/model`, or `demo`. Commas separate models that take over while those before them fail."},
		{"LILAC_TOKEN", "", "The operator's token (at least 16 characters), instead of one that the server makes. Required to listen on an address that is not loopback."},
		{"LILAC_METRICS_TOKEN", "", "A token that opens `/metrics` and nothing else (at least 16 characters), for a Prometheus that should not have the operator's."},
		{"LILAC_LOG_LEVEL", "log.level", "The least that is logged."},
		{"LILAC_LOG_FORMAT", "log.format", "How it is logged."},
		{"ANTHROPIC_API_KEY", "providers.anthropic.apiKey", "The key of Anthropic's API."},
		{"ANTHROPIC_BASE_URL", "providers.anthropic.baseURL", "Another server that speaks Anthropic's protocol."},
		{"OPENAI_API_KEY", "providers.openai.apiKey", "The key of OpenAI's API, or of what OPENAI_BASE_URL names."},
		{"OPENAI_BASE_URL", "providers.openai.baseURL", "Another server that speaks OpenAI's protocol, for example `http://127.0.0.1:11434/v1`."},
		{"DISCORD_BOT_TOKEN", "surface.discord.token", "The token of the bot on Discord, if DISCORD_TOKEN is not set."},
		{"DISCORD_TOKEN", "surface.discord.token", "The token of the bot on Discord. Without one Discord is off."},
		{"AWS_ACCESS_KEY_ID", "", "With AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN: the access key for a bucket (LILAC_BLOBS) and for providers with `auth: aws`."},
		{"GEMINI_API_KEY", "providers.gemini.apiKey", "The key of Gemini's API, which is reached through its OpenAI-compatible endpoint."},
	}
}

func (c reader) applyEnv() {
	plain := map[string]*string{
		"addr": &c.Addr, "dataDir": &c.DataDir, "workspace": &c.Workspace, "workspaces.dir": &c.Workspaces.Dir, "workspaces.homes": &c.Workspaces.Homes, "memory.dir": &c.Memory.Dir, "node.url": &c.Node.URL, "bus.url": (*string)(&c.Bus.URL), "database.url": (*string)(&c.Database.URL),
		"attachments.store": &c.Attachments.Store, "log.level": &c.Log.Level, "log.format": &c.Log.Format,
		"surface.discord.token": (*string)(&c.Surface.Discord.Token),
	}
	for _, v := range Environment() {
		value := c.getenv(v.Name)
		if value == "" || v.Key == "" {
			continue
		}
		c.origin[v.Key] = v.Name
		if v.Key == "model" {
			c.Model = parseModels(value)
			continue
		}
		if into, ok := plain[v.Key]; ok {
			*into = value
			continue
		}
		c.applyProviderEnv(v.Key, value)
	}
	c.Token = Secret(c.getenv("LILAC_TOKEN"))
	c.MetricsToken = Secret(c.getenv("LILAC_METRICS_TOKEN"))
}

func (c reader) applyProviderEnv(key, value string) {
	for _, name := range []string{"anthropic", "openai", "gemini"} {
		p := c.Providers[name]
		switch key {
		case "providers." + name + ".apiKey":
			p.APIKey = Secret(value)
		case "providers." + name + ".baseURL":
			p.BaseURL = value
		}
		c.Providers[name] = p
	}
}

func (c reader) applyFlags(f Flags) {
	for _, flag := range []struct {
		key, name, value string
		into             *string
	}{
		{"addr", "--addr", f.Addr, &c.Addr},
		{"dataDir", "--data", f.DataDir, &c.DataDir},
		{"workspace", "--workspace", f.Workspace, &c.Workspace},
		{"log.level", "--log-level", f.LogLevel, &c.Log.Level},
		{"log.format", "--log-format", f.LogFormat, &c.Log.Format},
	} {
		if flag.value != "" {
			*flag.into = flag.value
			c.origin[flag.key] = "flag " + flag.name
		}
	}
	if f.Model != "" {
		c.Model, c.origin["model"] = parseModels(f.Model), "flag --model"
	}
}
