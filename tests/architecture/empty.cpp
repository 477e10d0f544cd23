// A target must have a source. This one is never built: CMake only asks it for the flags of a consumer.
