package config

import "lilac/internal/foundation/setting"

// The types of values, which the parts of Lilac use in their settings.
type (
	Duration = setting.Duration
	Size     = setting.Size
	Secret   = setting.Secret
)

const masked = setting.Masked
