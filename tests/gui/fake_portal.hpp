// A desktop portal that says what the test wants of light and dark, on the bus that the environment names.
#pragma once

#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusVariant>
#include <QDBusVirtualObject>
#include <QVariant>

namespace orrery {

class FakePortal : public QDBusVirtualObject {
  public:
    bool start() {
        const QByteArray address = qgetenv("DBUS_SESSION_BUS_ADDRESS");
        if (address.isEmpty()) return false;
        bus_ = QDBusConnection::connectToBus(QString::fromUtf8(address), QStringLiteral("portal"));
        return bus_.isConnected() && bus_.registerVirtualObject(QStringLiteral("/org/freedesktop/portal/desktop"), this) &&
               bus_.registerService(QStringLiteral("org.freedesktop.portal.Desktop"));
    }
    ~FakePortal() override { QDBusConnection::disconnectFromBus(QStringLiteral("portal")); }

    void say(uint scheme) {
        QDBusMessage signal =
            QDBusMessage::createSignal(QStringLiteral("/org/freedesktop/portal/desktop"), QStringLiteral("org.freedesktop.portal.Settings"),
                                       QStringLiteral("SettingChanged"));
        signal << QStringLiteral("org.freedesktop.appearance") << QStringLiteral("color-scheme")
               << QVariant::fromValue(QDBusVariant(scheme));
        bus_.send(signal);
    }

    QString introspect(const QString&) const override { return {}; }
    bool handleMessage(const QDBusMessage& message, const QDBusConnection& connection) override {
        if (message.member() != QLatin1String("Read")) return false;
        const QVariant inner = QVariant::fromValue(QDBusVariant(1u)); // dark; wrapped once more, as the real one does
        return connection.send(message.createReply(QVariant::fromValue(QDBusVariant(inner))));
    }

  private:
    QDBusConnection bus_{QString()};
};

} // namespace orrery
