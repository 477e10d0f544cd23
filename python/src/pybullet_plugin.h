// What the plugin that PyBullet loads and the extension module linchpin._pybullet share. PyBullet loads plugins into
// the global namespace of symbols. So the plugin contains neither Bullet nor linchpin: it passes calls to the module.
#pragma once

namespace linchpin::python {

/// Calls of the plugin to the module. The plugin has the address of the table of one client.
struct PluginCalls {
  void* attachment;                                   ///< first argument of the calls
  void (*attach)(void* attachment, void* processor);  ///< hands over PyBullet's command processor of the client
  void (*before_step)(void* attachment);              ///< a step begins
  void (*after_step)(void* attachment);               ///< a step has ended
  void (*close)(void* attachment);                    ///< the client ends; no call comes after it
};

}  // namespace linchpin::python
