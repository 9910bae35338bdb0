// Texts of functions that belong to no QObject, in the language that runs.
#pragma once

#include <QCoreApplication>
#include <QString>

namespace orrery {

inline QString tr(const char* text) { return QCoreApplication::translate("orrery", text); }

} // namespace orrery
