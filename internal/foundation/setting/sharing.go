package setting

// Sharing is a setting that says whether conversations share the configured workspace. Unset, it
// follows the next wider setting.
type Sharing struct {
	Shared *bool `json:"shared,omitempty" jsonschema:"Whether the agent works in the directory of the setting workspace, which all who share it read and write. Default: as workspaces.shared says."`
}
