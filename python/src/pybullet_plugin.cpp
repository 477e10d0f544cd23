// The plugin that PyBullet loads, by PyBullet's public interface for plugins (b3PluginAPI.h): functions with the names
// initPlugin_linchpin, …. The declarations here are linchpin's own, and contain what is used.
#include "pybullet_plugin.h"

#include <cstdlib>
#include <new>

namespace {

using linchpin::python::PluginCalls;

/// b3PluginContext of PyBullet.
struct Context {
  void* client;
  void* user;  ///< kept from call to call
  void* return_data;
  const void* vr_events;
  int vr_event_count;
  const void* keyboard_events;
  int keyboard_event_count;
  const void* mouse_events;
  int mouse_event_count;
  const void* notifications;
  int notification_count;
  void* processor;  ///< PhysicsCommandProcessorInterface; in the call of initPlugin only
};

/// b3PluginArguments of PyBullet.
struct Arguments {
  char text[1024];
  int int_count;
  int ints[128];
  int float_count;
  double floats[128];
};

/// The version of the interface. PyBullet refuses plugins of another version.
constexpr int shared_memory_magic_number = 202010061;

/// The plugin of one client.
struct Plugin {
  void* processor;
  PluginCalls* calls;
};

Plugin& plugin(Context* context) { return *static_cast<Plugin*>(context->user); }

}  // namespace

#define LINCHPIN_PLUGIN_CALL extern "C" __attribute__((visibility("default")))

LINCHPIN_PLUGIN_CALL int initPlugin_linchpin(Context* context) {
  context->user = new (std::nothrow) Plugin{context->processor, nullptr};
  return context->user ? shared_memory_magic_number : -1;
}

LINCHPIN_PLUGIN_CALL void exitPlugin_linchpin(Context* context) {
  if (!context->user) return;
  if (PluginCalls* const calls = plugin(context).calls) calls->close(calls->attachment);
  delete &plugin(context);
  context->user = nullptr;
}

/// The text is the address of PluginCalls as a hexadecimal number, or 0 to end the calls.
/// @return 0, or -1 without a plugin, or -2 if the plugin has the calls of another attachment already
LINCHPIN_PLUGIN_CALL int executePluginCommand_linchpin(Context* context, const Arguments* arguments) {
  if (!context->user) return -1;
  Plugin& self = plugin(context);
  auto* const calls = reinterpret_cast<PluginCalls*>(std::strtoull(arguments->text, nullptr, 16));
  if (calls && self.calls) return -2;
  self.calls = calls;
  if (self.calls) self.calls->attach(self.calls->attachment, self.processor);
  return 0;
}

LINCHPIN_PLUGIN_CALL int preTickPluginCallback_linchpin(Context* context) {
  if (PluginCalls* const calls = context->user ? plugin(context).calls : nullptr) calls->before_step(calls->attachment);
  return 0;
}

LINCHPIN_PLUGIN_CALL int postTickPluginCallback_linchpin(Context* context) {
  if (PluginCalls* const calls = context->user ? plugin(context).calls : nullptr) calls->after_step(calls->attachment);
  return 0;
}
