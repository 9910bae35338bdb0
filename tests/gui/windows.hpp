// Shared by tests of whole windows: a scenario that simulates in milliseconds, files in a folder of their own, settings nobody else has.
#pragma once

#include "gui/app/main_window.hpp"

#include <QCoreApplication>
#include <QFile>
#include <QSettings>
#include <QTemporaryDir>

namespace orrery::windows {

constexpr int patience = 30000;

inline const QByteArray small =
    R"({"name": "small", "model": {"name": "tiny", "layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
  "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
  "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2}})";

inline QString written(const QTemporaryDir& folder, const char* name, const QByteArray& bytes) {
    QFile file(folder.filePath(name));
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size()) qFatal("cannot write %s", name);
    return file.fileName();
}

inline Options fresh() {
    Options o;
    o.fresh = true;
    o.size = {1000, 700};
    return o;
}

// Remembers: for sessions, with settings in `folder`.
inline Options remembering(const QTemporaryDir& folder) {
    QSettings::setDefaultFormat(QSettings::IniFormat);
    QSettings::setPath(QSettings::IniFormat, QSettings::UserScope, folder.path());
    QCoreApplication::setOrganizationName(QStringLiteral("Orrery"));
    QCoreApplication::setApplicationName(QStringLiteral("test"));
    Options o = fresh();
    o.fresh = false;
    return o;
}

} // namespace orrery::windows
