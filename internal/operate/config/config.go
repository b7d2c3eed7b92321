package config

import (
	"encoding/json"
	"time"
)

// Config is everything that can be set. The texts in the tags are the
// reference for operators: the JSON Schema and docs/configuration.md are made
// from them.
type Config struct {
	Addr         string              `json:"addr,omitempty" jsonschema:"The address to listen on. Any address but a loopback one needs LILAC_TOKEN."`
	AllowedHosts []string            `json:"allowedHosts,omitempty" jsonschema:"Host names, beside loopback, that a browser may use to reach the server, for example behind a reverse proxy."`
	DataDir      string              `json:"dataDir,omitempty" jsonschema:"Where the database, the token and everything else that must survive lives. One process owns it."`
	Workspace    string              `json:"workspace,omitempty" jsonschema:"The directory the agent works in, and its home. It is apart from dataDir."`
	Bus          Bus                 `json:"bus,omitempty" jsonschema:"What carries the events."`
	Model        string              `json:"model,omitempty" jsonschema:"The model that answers, as provider/model. Without it: the first of anthropic, openai and gemini whose key is set, else demo."`
	Providers    map[string]Provider `json:"providers,omitempty" jsonschema:"Model providers by name. anthropic, openai, gemini and demo are built in and may be changed here."`
	Models       map[string]Model    `json:"models,omitempty" jsonschema:"Facts about models, by provider/model. They win over what is known of the model."`
	Limits       Limits              `json:"limits,omitempty" jsonschema:"What a request, a conversation and a day may use. At a limit the request asks in its conversation whether to go on. Zero means no limit."`
	CompactAt    float64             `json:"compactAt,omitempty" jsonschema:"The share of the model's context window that a conversation may fill before its older part is summarised, above 0 and at most 0.95."`
	System       string              `json:"system,omitempty" jsonschema:"Instructions of the operator. They stand before every conversation and are never compacted."`
	Sandbox      Sandbox             `json:"sandbox,omitempty" jsonschema:"How commands of the agent are confined."`
	Tools        Tools               `json:"tools,omitempty" jsonschema:"The tool server: what the agent's commands, and operators, can call."`
	Tasks        Tasks               `json:"tasks,omitempty" jsonschema:"What the agent runs in the background: commands, and sub-agents."`
	Surface      Surface             `json:"surface,omitempty" jsonschema:"The platforms where people talk to the agent."`
	Attachments  Attachments         `json:"attachments,omitempty" jsonschema:"Files that the agent gives to people and takes from them."`
	Entity       Entity              `json:"entity,omitempty" jsonschema:"What people and conversations are called in the texts of the agent."`
	Router       Router              `json:"router,omitempty" jsonschema:"Which messages on a platform wake the agent, beside those that are meant for it."`
	Rules        map[string]Rule     `json:"rules,omitempty" jsonschema:"What events set off, by the name of the rule. lilac rules test says what an event would do."`
	Webhooks     map[string]Webhook  `json:"webhooks,omitempty" jsonschema:"What other programs may send, by the last part of the address: POST /webhooks/NAME. Each becomes an event webhook.received; rules say what it sets off."`
	Files        map[string]Files    `json:"files,omitempty" jsonschema:"Files that are watched, by a name for them. A change makes an event file.changed; rules say what it sets off."`
	Timers       map[string]Timer    `json:"timers,omitempty" jsonschema:"What happens at times, by name. Each makes an event timer.fired; rules say what it sets off."`
	Log          Log                 `json:"log,omitempty" jsonschema:"The log on standard error."`

	// Token is the operator's own token, from LILAC_TOKEN; empty means that the
	// server makes one. It is no key of the file.
	Token Secret `json:"-"`
	// MetricsToken opens /metrics and nothing else, from LILAC_METRICS_TOKEN. It
	// is no key of the file.
	MetricsToken Secret `json:"-"`
	// File is the file that was read, empty if there was none; Sought is where
	// it is looked for.
	File   string `json:"-"`
	Sought string `json:"-"`

	getenv func(string) string
	// origin says for a path ("model") where its value came from, places where
	// in the file it stands.
	origin map[string]string
	places map[string]place
	// unread are the keys of the file whose values could not be read.
	unread []string
}

// Bus chooses the engine that carries the events.
type Bus struct {
	URL                  BusURL `json:"url,omitempty" jsonschema:"sqlite: keeps the events in the database of dataDir. redis://user:password@host:6379/0 keeps them in Redis Streams (Redis 7.0 or later, or Valkey), rediss:// over TLS (without certificates of clients: tls-auth-clients no); with sentinels it names them: redis://host1:26379?addr=host2:26379&master_set=NAME."`
	PasswordFile         string `json:"passwordFile,omitempty" jsonschema:"A file whose first line is the password for Redis, instead of one in the URL."`
	SentinelPasswordFile string `json:"sentinelPasswordFile,omitempty" jsonschema:"A file whose first line is the password of the sentinels, when they want one. It may be the file of bus.passwordFile."`
	CAFile               string `json:"caFile,omitempty" jsonschema:"A PEM file of authorities that may sign the certificate of a rediss:// server, beside those of the system. It is read again when a certificate is not trusted."`
	Prefix               string `json:"prefix,omitempty" jsonschema:"What every key in Redis begins with. One store owns it."`
	AcceptLoss           bool   `json:"acceptLoss,omitempty" jsonschema:"Uses a Redis without an append-only file, which loses what it holds when it stops."`
}

// ProviderType is the wire protocol of a provider.
type ProviderType string

// The protocols.
const (
	Anthropic ProviderType = "anthropic"
	OpenAI    ProviderType = "openai"
	Demo      ProviderType = "demo"
)

// Provider is where models are reached.
type Provider struct {
	Type    ProviderType `json:"type,omitempty" jsonschema:"The protocol it speaks: Anthropic's Messages or OpenAI's chat completions."`
	BaseURL string       `json:"baseURL,omitempty" jsonschema:"Where its API begins, without the name of the operation."`
	APIKey  Secret       `json:"apiKey,omitempty" jsonschema:"Its key. Better as ${NAME}, which is taken from the environment, than in the file."`
	API     API          `json:"api,omitempty" jsonschema:"The API of a provider of type openai: responses or chat (chat completions). Without it: responses for OpenAI's own address, chat for every other one. If the endpoint supports only the other API, Lilac learns that from its refusal."`
}

// API is one of the two APIs of OpenAI's protocol.
type API string

// The APIs.
const (
	APIResponses API = "responses"
	APIChat      API = "chat"
)

// Model holds the facts and the options of a model.
type Model struct {
	ContextTokens   int               `json:"contextTokens,omitempty" jsonschema:"The size of its context window."`
	MaxOutputTokens int               `json:"maxOutputTokens,omitempty" jsonschema:"How much it may write in one call."`
	Images          *bool             `json:"images,omitempty" jsonschema:"Whether it sees images."`
	Effort          string            `json:"effort,omitempty" jsonschema:"How much the model thinks: none, minimal, low, medium, high, xhigh, or max, as far as the model supports it."`
	ThinkingTokens  int               `json:"thinkingTokens,omitempty" jsonschema:"Maximum number of thinking tokens per call, for models that take a budget instead of an effort."`
	Temperature     *float64          `json:"temperature,omitempty" jsonschema:"The sampling temperature, from 0 to 2."`
	TopP            *float64          `json:"topP,omitempty" jsonschema:"The share of probability to sample from, above 0 and at most 1."`
	FirstToken      Duration          `json:"firstToken,omitempty" jsonschema:"How long the model may send nothing before its first token. Default 2m."`
	Silence         Duration          `json:"silence,omitempty" jsonschema:"How long the model may send nothing after its first token. Default 2m."`
	Headers         map[string]Secret `json:"headers,omitempty" jsonschema:"Headers to add to each request."`
	Body            map[string]any    `json:"body,omitempty" jsonschema:"Fields to add to the JSON body of each request. They replace Lilac's own."`
	Price           *Price            `json:"price,omitempty" jsonschema:"What it costs, in US dollars per million tokens. A limit on money needs it."`
}

// Price is in US dollars per million tokens.
type Price struct {
	Input      float64 `json:"input,omitempty" jsonschema:"Tokens it reads."`
	Output     float64 `json:"output,omitempty" jsonschema:"Tokens it writes."`
	CacheRead  float64 `json:"cacheRead,omitempty" jsonschema:"Tokens it reads from the provider's cache."`
	CacheWrite float64 `json:"cacheWrite,omitempty" jsonschema:"Tokens written to the provider's cache."`
}

// Limits bounds what is used. They are compared before each call of the
// model; a request that reaches one asks in its conversation whether to go on.
type Limits struct {
	Request  Budget   `json:"request,omitempty" jsonschema:"What one request may use."`
	Session  Budget   `json:"session,omitempty" jsonschema:"What one conversation may use, from its beginning."`
	Day      Budget   `json:"day,omitempty" jsonschema:"What all conversations together may use in one day."`
	TimeZone string   `json:"timeZone,omitempty" jsonschema:"Where a day begins at midnight: a name such as Europe/Berlin, UTC, or Local for that of this machine."`
	Wait     Duration `json:"wait,omitempty" jsonschema:"How long a request that reached a limit waits for an answer, before it ends."`
	Tool     Duration `json:"tool,omitempty" jsonschema:"How long one call of a tool may take. Tools have smaller limits of their own."`
}

// Budget bounds what is used of each thing. Zero means no limit.
type Budget struct {
	Steps  int64    `json:"steps,omitempty" jsonschema:"Calls of the model."`
	Tokens int64    `json:"tokens,omitempty" jsonschema:"Tokens, read and written. Of a provider that does not report them an estimate counts."`
	Money  float64  `json:"money,omitempty" jsonschema:"US dollars. Needs a model whose price is known."`
	Time   Duration `json:"time,omitempty" jsonschema:"How long it may work, for example 30m. Waiting in a queue or for an answer is not counted."`
}

// Zone is the place of TimeZone.
func (l Limits) Zone() (*time.Location, error) { return time.LoadLocation(l.TimeZone) }

// Tools says where the tool server can be reached beside its socket.
type Tools struct {
	Addr string `json:"addr,omitempty" jsonschema:"A loopback address (127.0.0.1:7421) on which the tool server listens as well. Without it there is only the socket. Any other address is refused."`
}

// Sandbox says how commands are confined.
type Sandbox struct {
	Mode string `json:"mode,omitempty" jsonschema:"auto confines every command, with bubblewrap or with namespaces of our own and Landlock (lilac doctor says which and why), and refuses to run one that it cannot confine; bubblewrap and namespaces are one of these and no other; off accepts the risk and confines nothing."`

	ReadOnly []string       `json:"readOnly,omitempty" jsonschema:"Further files and directories that commands can read. The system's programs and the workspace are always there."`
	Writable []string       `json:"writable,omitempty" jsonschema:"Further directories that commands can write. None of them contains the workspace, another path that is shown, or a link on the way to one: the agent could replace it."`
	Hidden   []string       `json:"hidden,omitempty" jsonschema:"Files and directories that are hidden where readOnly or the system would show them. dataDir and the file of the configuration always are. A command that runs while such a file is replaced (as most programs save) sees the new one: hide its directory."`
	Network  SandboxNetwork `json:"network,omitempty" jsonschema:"What commands can reach. Without hosts: nothing."`
	Limits   SandboxLimits  `json:"limits,omitempty" jsonschema:"What one command, with everything that it starts, may use."`
}

// SandboxNetwork says what commands can reach.
type SandboxNetwork struct {
	Hosts       map[string]SandboxHost `json:"hosts,omitempty" jsonschema:"Hosts by name (api.github.com) or, for all names below one, \"*.example.org\". They are reached through a proxy of ours that looks names up and refuses addresses which are not on the public internet."`
	Connections int                    `json:"connections,omitempty" jsonschema:"How many connections a command may have at a time."`
	Bytes       Size                   `json:"bytes,omitempty" jsonschema:"How much a command may send and receive."`
}

// SandboxHost is a host that commands can reach.
type SandboxHost struct {
	Ports    []int             `json:"ports,omitempty" jsonschema:"Its ports that can be reached; without any 80 and 443."`
	Headers  map[string]Secret `json:"headers,omitempty" jsonschema:"Headers to add, for example Authorization: \"Bearer ${GITHUB_TOKEN}\". They are added outside of the sandbox, to requests for http://host/, which go on as HTTPS; commands never see them. Not for names with *."`
	Internal bool              `json:"internal,omitempty" jsonschema:"Whether it may be on this machine or a private network. For localhost programs leave the proxy out, unless NO_PROXY is unset: give this machine another name."`
}

// SandboxLimits bounds one command.
type SandboxLimits struct {
	Memory    Size     `json:"memory,omitempty" jsonschema:"Memory of all its processes together, at least 128MiB."`
	Processes int      `json:"processes,omitempty" jsonschema:"Processes and threads."`
	Disk      Size     `json:"disk,omitempty" jsonschema:"By how much files may grow."`
	Tmp       Size     `json:"tmp,omitempty" jsonschema:"What /tmp and /dev/shm hold, each. They are in memory."`
	Output    Size     `json:"output,omitempty" jsonschema:"What it prints. The model sees far less; the rest is kept in a file."`
	Time      Duration `json:"time,omitempty" jsonschema:"How long it may run, whatever the model asks for."`
}

// Tasks bounds what runs in the background.
type Tasks struct {
	PerSession int      `json:"perSession,omitempty" jsonschema:"How many tasks of one conversation may run at a time."`
	Total      int      `json:"total,omitempty" jsonschema:"How many tasks may run at a time, in all conversations together."`
	Time       Duration `json:"time,omitempty" jsonschema:"How long a task may run whose start does not say."`
	MaxTime    Duration `json:"maxTime,omitempty" jsonschema:"How long a start may ask for."`
	Output     Size     `json:"output,omitempty" jsonschema:"How much of what a command prints is kept; the oldest goes first."`
	Keep       Duration `json:"keep,omitempty" jsonschema:"How long a task that has ended is remembered, with its output and the conversation of its sub-agent."`
}

// The modes of the sandbox.
const (
	SandboxAuto       = "auto"
	SandboxBubblewrap = "bubblewrap"
	SandboxNamespaces = "namespaces"
	SandboxOff        = "off"
)

// Attachments bounds the files that go in and out.
type Attachments struct {
	MaxBytes Size     `json:"maxBytes,omitempty" jsonschema:"The largest file that the agent gives or downloads, or that a prompt brings (there at most 10MiB, for the models). Platforms may take less."`
	MaxTotal Size     `json:"maxTotal,omitempty" jsonschema:"How much the files of one call, or of one prompt (there at most 20MiB), may have together."`
	Keep     Duration `json:"keep,omitempty" jsonschema:"How long the bytes of a file stay after the last message that refers to them is gone, at least 48h."`
}

// Log says what is logged and how.
type Log struct {
	Level  string `json:"level,omitempty" jsonschema:"The least that is logged: debug, info, warn or error."`
	Format string `json:"format,omitempty" jsonschema:"json, text, or auto: text on a terminal and json elsewhere."`
}

// Default returns the configuration of a program that was told nothing; the
// paths still begin with ~.
func Default() *Config {
	return &Config{
		Addr:      "127.0.0.1:7420",
		DataDir:   "~/.lilac",
		Workspace: "~/lilac",
		Bus:       Bus{URL: "sqlite:", Prefix: "lilac"},
		Providers: map[string]Provider{
			"anthropic": {Type: Anthropic, BaseURL: "https://api.anthropic.com"},
			"openai":    {Type: OpenAI, BaseURL: "https://api.openai.com/v1"},
			"gemini":    {Type: OpenAI, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai"},
			"demo":      {Type: Demo},
		},
		Limits: Limits{
			// A healthy request needs far less; a model that loops is stopped.
			Request: Budget{Steps: 50, Tokens: 5_000_000, Time: Duration(time.Hour)},
			// Against what nobody watches, for example events that set each other off.
			Day:      Budget{Tokens: 100_000_000},
			TimeZone: "Local",
			Wait:     Duration(24 * time.Hour),
			Tool:     Duration(30 * time.Minute),
		},
		CompactAt: 0.75,
		Sandbox: Sandbox{
			Mode:    SandboxAuto,
			Network: SandboxNetwork{Connections: 64, Bytes: 1 << 30},
			// Room for a build, and a small machine stays alive.
			Limits: SandboxLimits{
				Memory: 2 << 30, Processes: 512, Disk: 4 << 30, Tmp: 256 << 20, Output: 64 << 20, Time: Duration(10 * time.Minute),
			},
		},
		Tasks: Tasks{
			PerSession: 8, Total: 32, Time: Duration(time.Hour), MaxTime: Duration(24 * time.Hour),
			Output: 10 << 20, Keep: Duration(7 * 24 * time.Hour),
		},
		Surface: Surface{Discord: Discord{
			APIURL: "https://discord.com/api/v10", Mode: ModeMention,
			Backfill: DiscordBackfill{Age: Duration(24 * time.Hour), Messages: 200},
			// What Discord lets a person without a subscription send is below.
			Attachments: DiscordAttachments{MaxBytes: 25 << 20, Hosts: []string{"cdn.discordapp.com", "media.discordapp.net"}},
			// Half a gigabyte, with the index of their words.
			Cache: DiscordCache{Age: Duration(180 * 24 * time.Hour), Messages: 500_000},
		}},
		Attachments: Attachments{MaxBytes: 25 << 20, MaxTotal: 50 << 20, Keep: Duration(7 * 24 * time.Hour)},
		Router:      Router{Debounce: Debounce{Wait: Duration(3 * time.Second), Max: Duration(10 * time.Second)}},
		Log:         Log{Level: "info", Format: "auto"},
	}
}

// Origin says where the value of a key came from: "flag --addr",
// "LILAC_ADDR", "the file" or "default".
func (c *Config) Origin(key string) string {
	if from, ok := c.origin[key]; ok {
		return from
	}
	return "default"
}

// JSON writes the configuration as it is in effect, secrets as ***.
func (c *Config) JSON() ([]byte, error) { return json.MarshalIndent(c, "", "  ") }
