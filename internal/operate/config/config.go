package config

import (
	"encoding/json"
	"time"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/web"
	"lilac/internal/core/clock"
	"lilac/internal/core/environment"
	"lilac/internal/core/files"
	"lilac/internal/core/program"
	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/webhook"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/model/catalog"
	"lilac/internal/surfaces/discord"
	"lilac/internal/telemetry/logs"
)

// Config holds every setting. The texts in the tags are the reference for operators: the JSON
// Schema and docs/configuration.md are generated from them.
type Config struct {
	Addr           string                            `json:"addr,omitempty" jsonschema:"The address to listen on. Any address other than loopback requires LILAC_TOKEN."`
	AllowedHosts   []string                          `json:"allowedHosts,omitempty" jsonschema:"Host names, in addition to loopback, under which browsers may reach the server, for example behind a reverse proxy."`
	TrustedProxies []string                          `json:"trustedProxies,omitempty" jsonschema:"IP addresses or networks (such as 10.0.0.0/8) of reverse proxies whose Forwarded and X-Forwarded-* headers the server honours. The host that they name must still be in allowedHosts."`
	DataDir        string                            `json:"dataDir,omitempty" jsonschema:"The directory of the database, the token, and everything else that must survive. One process owns it."`
	Workspace      string                            `json:"workspace,omitempty" jsonschema:"The directory that conversations with a shared workspace work in (see workspaces). It must be separate from dataDir."`
	Workspaces     Workspaces                        `json:"workspaces,omitempty" jsonschema:"Whether conversations share the workspace."`
	Database       Database                          `json:"database,omitempty" jsonschema:"The database of everything that must survive, except files."`
	Node           Node                              `json:"node,omitempty" jsonschema:"This process as one of several nodes on a PostgreSQL database."`
	Bus            Bus                               `json:"bus,omitempty" jsonschema:"The event log."`
	Model          ModelList                         `json:"model,omitempty" jsonschema:"The model that answers, as provider/model, or a list of models: each takes over while those before it fail. Default: the first of anthropic, openai, and gemini whose key is set, otherwise demo."`
	Providers      map[string]Provider               `json:"providers,omitempty" jsonschema:"Model providers by name. anthropic, openai, gemini, and demo are built in; you can change them here."`
	Models         map[string]Model                  `json:"models,omitempty" jsonschema:"Facts about models, by provider/model. They override those of the catalog."`
	Web            web.Settings                      `json:"web,omitempty" jsonschema:"What the agent may read and search on the web."`
	Transcription  Transcription                     `json:"transcription,omitempty" jsonschema:"An endpoint that turns voice messages into text, for models that do not accept audio."`
	Titles         Titles                            `json:"titles,omitempty" jsonschema:"Titles of conversations. By default, the first words of a conversation are its title."`
	Catalog        string                            `json:"catalog,omitempty" jsonschema:"A file with facts about models (windows, output limits, prices, capabilities) in the shape of https://models.dev/api.json. It replaces the built-in catalog."`
	Limits         session.LimitsConfig              `json:"limits,omitempty" jsonschema:"Limits per request, conversation, and day. At a limit, the request asks in its conversation whether to continue. Zero means no limit."`
	CompactAt      float64                           `json:"compactAt,omitempty" jsonschema:"The share of the model's context window that a conversation may fill before its older part is summarized; above 0, at most 0.95."`
	System         string                            `json:"system,omitempty" jsonschema:"The operator's instructions. They precede every conversation and are never compacted."`
	Channels       map[string]Channel                `json:"channels,omitempty" jsonschema:"Model, effort, and instructions of single channels, by the ID of the channel, by its name in entity.sessions, or by client (web, terminal, acp). A thread has the settings of its channel unless it has its own. What people choose in a conversation precedes them."`
	Agents         Agents                            `json:"agents,omitempty" jsonschema:"Named agents: kinds of agents with a model, instructions, tools, and limits of their own, for tasks, rules (do.agent.name), channels (channels.NAME.agent), conversations, and models of /v1 (lilac/agents/NAME)."`
	Sandbox        sandbox.Config                    `json:"sandbox,omitempty" jsonschema:"The sandbox for the agent's commands."`
	Tools          Tools                             `json:"tools,omitempty" jsonschema:"The tool server for callables."`
	MCPServers     map[string]mcpclient.ServerConfig `json:"mcpServers,omitempty" jsonschema:"Servers of the Model Context Protocol (MCP), by name, in the form that other products use. Their tools are callables mcp.NAME.TOOL; tools settings say which requests may use them."`
	Memory         Memory                            `json:"memory,omitempty" jsonschema:"What the agent remembers between conversations, as plain files."`
	Skills         Skills                            `json:"skills,omitempty" jsonschema:"Skills: directories with a file SKILL.md that says how to do a kind of work. Lilac finds them in .agents/skills and .claude/skills of the workspace, in ~/.agents/skills, and here. The agent uses those that lilac skills trust has trusted."`
	MCP            MCP                               `json:"mcp,omitempty" jsonschema:"The Model Context Protocol (MCP): Lilac as a server, and tools of other servers for the model itself."`
	V1             V1                                `json:"v1,omitempty" jsonschema:"An API at /v1 for clients of OpenAI's API: chat completions, responses, and models. Without tokens, it is off."`
	Accounts       Accounts                          `json:"accounts,omitempty" jsonschema:"People with accounts of their own, who see their own and shared conversations. Without invites and OIDC, there is only the operator."`
	Tasks          task.Config                       `json:"tasks,omitempty" jsonschema:"Background tasks: commands and sub-agents."`
	Surface        Surface                           `json:"surface,omitempty" jsonschema:"The platforms where people talk to the agent."`
	Attachments    Attachments                       `json:"attachments,omitempty" jsonschema:"Files that the agent exchanges with people."`
	Policy         []policy.RuleConfig               `json:"policy,omitempty" jsonschema:"Rules for calls of tools and callables: who may have what called where, and which calls wait for a person's approval. They apply in addition to all tools.allow and tools.deny."`
	Entity         Entity                            `json:"entity,omitempty" jsonschema:"Names of people and conversations in the agent's texts."`
	Router         router.Config                     `json:"router,omitempty" jsonschema:"Which platform messages wake the agent, in addition to those addressed to it."`
	Rules          map[string]environment.RuleConfig `json:"rules,omitempty" jsonschema:"Rules by name. lilac rules test shows what an event would trigger."`
	Webhooks       map[string]webhook.Config         `json:"webhooks,omitempty" jsonschema:"Webhooks by name; each accepts POST /webhooks/NAME. A delivery becomes an event webhook.received; rules decide what it triggers."`
	Files          map[string]files.Config           `json:"files,omitempty" jsonschema:"Watched files, by a name for them. A change becomes an event file.changed; rules decide what it triggers."`
	Timers         map[string]clock.Config           `json:"timers,omitempty" jsonschema:"Timers by name. Each scheduled time becomes an event timer.fired; rules decide what it triggers."`
	Sources        map[string]program.Config         `json:"sources,omitempty" jsonschema:"Programs that are sources of events, by name. Each line that a program prints becomes an event; rules decide what it triggers."`
	Log            logs.Config                       `json:"log,omitempty" jsonschema:"The log on standard error."`

	// Token is the operator's token, from LILAC_TOKEN. If it is empty, the server generates one.
	// It cannot be set in the file.
	Token Secret `json:"-"`
	// MetricsToken grants access to /metrics only. It comes from LILAC_METRICS_TOKEN and cannot be
	// set in the file.
	MetricsToken Secret `json:"-"`
	// File is the path of the file that was read; empty if there was none. Sought is the path at
	// which the file is expected.
	File   string `json:"-"`
	Sought string `json:"-"`

	getenv func(string) string
	// facts is the catalog that Catalog names; nil means the built-in one.
	facts *catalog.Catalog
	// origin maps a key, such as "model", to the source of its value. places maps a key to its
	// position in the file.
	origin map[string]string
	places map[string]place
	// unread lists the keys of the file whose values could not be read.
	unread []string
}

// Bus configures the engine that stores the events.
type Bus struct {
	URL                  BusURL `json:"url,omitempty" jsonschema:"A Redis server (7.0 or later, or Valkey) to which Lilac copies every event, and through which other programs hand in events: redis://user:password@host:6379/0. The events themselves are always in the database, so Lilac works without Redis. rediss:// uses TLS, and unix:///path?db=0 a socket. To use Sentinel, list the sentinels: redis://host1:26379?addr=host2:26379&master_set=NAME. To use a cluster, list some of its nodes: redis://host1:6379?addr=host2:6379."`
	PasswordFile         string `json:"passwordFile,omitempty" jsonschema:"A file whose first line is the Redis password, as an alternative to one in the URL."`
	SentinelPasswordFile string `json:"sentinelPasswordFile,omitempty" jsonschema:"A file whose first line is the password of the sentinels, if they require one. It may be the same file as bus.passwordFile."`
	CAFile               string `json:"caFile,omitempty" jsonschema:"A PEM file of additional certificate authorities for a rediss:// server. Lilac reads it again when a certificate is not trusted."`
	CertFile             string `json:"certFile,omitempty" jsonschema:"A PEM file with the certificate that Lilac shows to a rediss:// server that wants one (tls-auth-clients yes). Lilac reads it again for each connection."`
	KeyFile              string `json:"keyFile,omitempty" jsonschema:"A PEM file with the private key of bus.certFile."`
	Prefix               string `json:"prefix,omitempty" jsonschema:"The prefix of all keys in Redis. Only one Lilac may use it."`
}

// Titles configures the titles of conversations.
type Titles struct {
	Model string `json:"model,omitempty" jsonschema:"A small, cheap model that names each new conversation after its first answer, as provider/model. It gets the first question and answer."`
}

// Transcription is an endpoint in the shape of OpenAI's audio/transcriptions.
type Transcription struct {
	URL    string `json:"url,omitempty" jsonschema:"Base URL of the endpoint, for example https://api.openai.com/v1. Without it, voice messages are not transcribed."`
	APIKey Secret `json:"apiKey,omitempty" jsonschema:"The API key, if the endpoint requires one. Prefer ${NAME}, which reads an environment variable."`
	Model  string `json:"model,omitempty" jsonschema:"The model that transcribes. Default whisper-1."`
}

// A ProviderType is the wire protocol of a provider.
type ProviderType string

// The supported provider types.
const (
	Anthropic ProviderType = "anthropic"
	OpenAI    ProviderType = "openai"
	Demo      ProviderType = "demo"
)

// A Provider is a service that offers models.
type Provider struct {
	Type    ProviderType `json:"type,omitempty" enum:"anthropic,openai,demo" jsonschema:"The protocol: Anthropic's Messages or OpenAI's chat completions."`
	BaseURL string       `json:"baseURL,omitempty" jsonschema:"Base URL of the API, for example https://api.openai.com/v1."`
	APIKey  Secret       `json:"apiKey,omitempty" jsonschema:"The API key. Prefer ${NAME}, which reads an environment variable, to a key in the file."`
	APIKeys []Secret     `json:"apiKeys,omitempty" jsonschema:"Further API keys. If the provider refuses or limits one key, Lilac uses the next."`
	Auth    Auth         `json:"auth,omitempty" enum:"key,aws,google" jsonschema:"How calls are authenticated: key (the default), aws (signed with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for Amazon Bedrock), or google (with the default credentials of Google Cloud, for Vertex)."`
	API     API          `json:"api,omitempty" enum:"responses,chat" jsonschema:"The API of a provider of type openai: responses or chat (chat completions). Default: responses for OpenAI's own endpoint, chat for every other one. If the endpoint supports only the other API, Lilac learns that from its refusal."`
	Headers Headers      `json:"headers,omitempty" jsonschema:"Headers to add to each request, for example cf-aig-authorization: Bearer ${TOKEN}. Those of a model win. Not allowed: Authorization, Host, Connection, and those that begin with Content-."`
}

// An Auth is a way to authenticate calls.
type Auth string

// The ways to authenticate. AuthKey is the default.
const (
	AuthKey    Auth = "key"
	AuthAWS    Auth = "aws"
	AuthGoogle Auth = "google"
)

// An API is one of the two APIs of OpenAI's protocol.
type API string

// The supported APIs.
const (
	APIResponses API = "responses"
	APIChat      API = "chat"
)

// A Model holds the facts and the options of a model.
type Model struct {
	ContextTokens   int            `json:"contextTokens,omitempty" jsonschema:"The size of the context window, in tokens."`
	MaxOutputTokens int            `json:"maxOutputTokens,omitempty" jsonschema:"The maximum output of one call, in tokens."`
	Images          *bool          `json:"images,omitempty" jsonschema:"Whether the model accepts images."`
	PDFs            *bool          `json:"pdfs,omitempty" jsonschema:"Whether the model accepts PDF documents."`
	Audio           *bool          `json:"audio,omitempty" jsonschema:"Whether the model accepts recordings."`
	Thinking        *bool          `json:"thinking,omitempty" jsonschema:"Whether the model thinks, for the lists of models."`
	Tools           *bool          `json:"tools,omitempty" jsonschema:"Whether the model can call tools, for the lists of models."`
	Effort          string         `json:"effort,omitempty" enum:"none,minimal,low,medium,high,xhigh,max" jsonschema:"How much the model thinks: none, minimal, low, medium, high, xhigh, or max, as far as the model supports it."`
	ThinkingTokens  int            `json:"thinkingTokens,omitempty" jsonschema:"Maximum number of thinking tokens per call, for models that take a budget instead of an effort."`
	Temperature     *float64       `json:"temperature,omitempty" jsonschema:"The sampling temperature, from 0 to 2."`
	TopP            *float64       `json:"topP,omitempty" jsonschema:"The share of probability to sample from, above 0 and at most 1."`
	FirstToken      Duration       `json:"firstToken,omitempty" jsonschema:"How long the model may send nothing before its first token. Default 2m."`
	Silence         Duration       `json:"silence,omitempty" jsonschema:"How long the model may send nothing after its first token. Default 2m."`
	Headers         Headers        `json:"headers,omitempty" jsonschema:"Headers to add to each request."`
	Body            map[string]any `json:"body,omitempty" jsonschema:"Fields to add to the JSON body of each request. They replace Lilac's own."`
	Price           *Price         `json:"price,omitempty" jsonschema:"The price in US dollars per million tokens. A money limit requires it."`
}

// A Price is in US dollars per million tokens.
type Price struct {
	Input      float64 `json:"input,omitempty" jsonschema:"Input tokens."`
	Output     float64 `json:"output,omitempty" jsonschema:"Output tokens."`
	CacheRead  float64 `json:"cacheRead,omitempty" jsonschema:"Input tokens read from the provider's cache."`
	CacheWrite float64 `json:"cacheWrite,omitempty" jsonschema:"Input tokens written to the provider's cache."`
}

// MCP configures the MCP server.
type MCP struct {
	Serve bool `json:"serve,omitempty" jsonschema:"Whether /mcp offers the callables to other programs. They need a token of lilac tools token create."`
	// The guard of the HTTP API compares them with the Origin header.
	Origins []string `json:"origins,omitempty" jsonschema:"Sites whose pages may call /mcp from a browser, as origins, like v1.origins. They need a token as well. Default: none."`
	Pin     []string `json:"pin,omitempty" jsonschema:"Tools of MCP servers that the model sees as tools of its own, in addition, for small models: mcp.SERVER.TOOL. A conversation keeps those with which it began."`
}

// V1 configures the API for clients of OpenAI's API.
type V1 struct {
	Tokens map[string]V1Token `json:"tokens,omitempty" jsonschema:"Programs that may call, by name. Each has its own conversations; their client is v1-NAME, which channels can name."`
	// The guard of the HTTP API compares them with the Origin header.
	Origins []string `json:"origins,omitempty" jsonschema:"Sites whose pages may call /v1 from a browser, as origins such as https://chat.example.com, http://localhost:5173, or app://obsidian.md; * means all. They need a token as well. Default: none."`
}

// A V1Token is a program that may call /v1.
type V1Token struct {
	Token Secret       `json:"token,omitempty" jsonschema:"The API key of the program, at least 16 characters. Prefer ${NAME}, which reads an environment variable."`
	Tools grant.Config `json:"tools,omitempty" jsonschema:"What requests of the program may use."`
	// The default refuses such calls: a program may take an answer without its tools for one with them.
	IgnoreTools bool `json:"ignoreTools,omitempty" jsonschema:"Whether calls with tools of the program itself are answered without those tools. By default, they are refused. The agent works in Lilac's workspace, not in the program's directory."`
}

// Memory configures what the agent remembers between conversations.
type Memory struct {
	Off      bool   `json:"off,omitempty" jsonschema:"Whether the agent remembers nothing."`
	Dir      string `json:"dir,omitempty" jsonschema:"The directory of the notes. Default: memory in dataDir. It must be outside of the workspace and of what commands see, because a conversation must not read the notes of others."`
	Everyone bool   `json:"everyone,omitempty" jsonschema:"Whether the agent may write notes that every conversation reads, in conversations of the page and the terminal. The operator can always edit them."`
}

// Skills configures where skills are found.
type Skills struct {
	Off   bool     `json:"off,omitempty" jsonschema:"Whether the agent uses no skills."`
	Paths []string `json:"paths,omitempty" jsonschema:"Further directories whose subdirectories are skills. They precede the other ones."`
}

// Tools configures the address of the tool server, in addition to its socket.
type Tools struct {
	Addr string `json:"addr,omitempty" jsonschema:"An additional loopback address for the tool server, for example 127.0.0.1:7421. Without it, there is only the socket. Other addresses are refused."`
}

// Attachments bounds the files that people and the agent exchange.
type Attachments struct {
	Store    string   `json:"store,omitempty" jsonschema:"Where the files are: a directory, such as one on a shared file system, or a bucket in a store that speaks Amazon S3's protocol: s3://BUCKET/PREFIX?region=eu-central-1, or s3://BUCKET?endpoint=https://minio.example.com. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Default: the directory blobs in dataDir."`
	MaxBytes Size     `json:"maxBytes,omitempty" jsonschema:"Maximum size of a file that the agent gives or downloads, or that a prompt contains (there at most 10MiB). Platforms may allow less."`
	MaxTotal Size     `json:"maxTotal,omitempty" jsonschema:"Maximum total size of the files of one call or one prompt (there at most 20MiB)."`
	Keep     Duration `json:"keep,omitempty" jsonschema:"How long a file is kept after the last message that refers to it is gone; at least 48h."`
}

// Default returns the built-in defaults. Its paths still start with ~.
func Default() *Config {
	return &Config{
		Addr:      "127.0.0.1:7420",
		DataDir:   "~/.lilac",
		Workspace: "~/lilac",
		Database:  Database{URL: "sqlite:"},
		Bus:       Bus{Prefix: "lilac"},
		Providers: map[string]Provider{
			"anthropic": {Type: Anthropic, BaseURL: "https://api.anthropic.com"},
			"openai":    {Type: OpenAI, BaseURL: "https://api.openai.com/v1"},
			"gemini":    {Type: OpenAI, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai"},
			"demo":      {Type: Demo},
		},
		Limits:      session.DefaultLimitsConfig(),
		CompactAt:   0.75,
		Sandbox:     sandbox.DefaultConfig(),
		Tasks:       task.DefaultConfig(),
		Surface:     Surface{Discord: discord.DefaultSettings()},
		Attachments: Attachments{MaxBytes: 25 << 20, MaxTotal: 50 << 20, Keep: Duration(7 * 24 * time.Hour)},
		Router:      router.DefaultConfig(),
		Log:         logs.DefaultConfig(),
	}
}

// Origin returns the source of a key's value: "flag --addr", "LILAC_ADDR", "the file" or
// "default".
func (c *Config) Origin(key string) string {
	if from, ok := c.origin[key]; ok {
		return from
	}
	return "default"
}

// JSON returns the effective configuration as JSON. Secrets are written as ***.
func (c *Config) JSON() ([]byte, error) { return json.MarshalIndent(c, "", "  ") }
